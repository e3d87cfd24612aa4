"""The built wheel, installed into an empty environment, gives a working `tally`."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from tests.compilers import CAN_COMPILE
from tests.container_file import copy_sources


def run(*command: str | Path, cwd: Path | None = None) -> str:
    finished = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tally` from the wheel, in an environment that has only what the wheel asks for."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_sources(folder)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=folder)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "venv")
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for each in find_needed(wheel):
        link(each, packages)
    python = folder / "venv" / "bin" / "python"
    # Without an index: what it asks for and was not linked, or in another version, is missing.
    run(sys.executable, "-m", "pip", "--python", python, "install", "-qq", "--no-index", wheel)
    return folder / "venv" / "bin" / "tally"


def find_needed(wheel: Path) -> list[Distribution]:
    """What the wheel asks for, and what that asks for, as this environment has it."""
    with ZipFile(wheel) as files:
        (name,) = (each for each in files.namelist() if each.endswith(".dist-info/METADATA"))
        asked = message_from_bytes(files.read(name)).get_all("Requires-Dist") or []
    wanted = [(Requirement(each), "") for each in asked]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    while wanted:
        requirement, extra = wanted.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for each in ("", *requirement.extras):
            if (requirement.name.lower(), each) not in seen:
                seen.add((requirement.name.lower(), each))
                there = distribution(requirement.name)
                found[there.name.lower()] = there
                wanted += [(Requirement(text), each) for text in there.requires or []]
    return list(found.values())


def link(package: Distribution, folder: Path) -> None:
    """Puts an installed package into another environment, without unpacking it once more."""
    for file in package.files or []:
        if ".." not in file.parts:  # programs, which nobody calls here
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(package.locate_file(file))))


def test_it_checks_a_formula(tally: Path, tmp_path: Path) -> None:
    printed = run(tally, "formula", "check", "success_pct / total_cost", cwd=tmp_path)
    assert printed.startswith("valid    success_pct / total_cost")


def test_it_evaluates_columns(tally: Path, tmp_path: Path) -> None:
    code = (
        "from tallymark.formula import Formula;"
        "print(Formula.parse('success_pct / 2').evaluate_many({'success_pct': [1, 2]}).values)"
    )
    assert run(tally.parent / "python", "-c", code, cwd=tmp_path).strip() == "[0.5 1. ]"


def test_it_holds_what_could_be_compiled(tally: Path) -> None:
    (formula,) = (tally.parents[1] / "lib").glob("python*/site-packages/tallymark/formula")
    assert [path.name for path in formula.glob("_quotients*so")] == (
        ["_quotients.abi3.so"] if CAN_COMPILE else []
    )


def test_the_first_suite_runs_in_the_base_install(tally: Path, tmp_path: Path) -> None:
    run(tally, "init", "suite.yaml", cwd=tmp_path)
    assert "3 passed" in run(tally, "run", "suite.yaml", cwd=tmp_path)


def test_what_needs_an_extra_says_which_before_the_first_case(tally: Path, tmp_path: Path) -> None:
    suite = "evals: [{prompt: hi, checks: [semantic: A greeting]}]"
    (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    for command in (["validate"], ["run", "-m", "echo/x"]):
        done = subprocess.run(
            [tally, *command, "suite.yaml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "pip install 'tallymark[semantic]'" in done.stdout + done.stderr


def test_the_documentation_comes_with_it(tally: Path, tmp_path: Path) -> None:
    assert run(tally, "docs", "formulas", cwd=tmp_path).startswith("# ")
    code = (
        "from tallymark.web.docs.docs_tree import load_docs; tree = load_docs();"
        "assert tree.pages['readme'].read.title == 'Tallymark';"
        "assert tree.decisions and 'home.png' in tree.pictures; print(tree.root)"
    )
    assert "site-packages" in run(tally.parent / "python", "-c", code, cwd=tmp_path)


def test_it_is_small(tally: Path) -> None:
    """About 220 MB in 63 packages, the server's among them; pip and setuptools do not count."""
    (packages,) = (tally.parents[1] / "lib").glob("python*/site-packages")
    counted = [
        path for path in packages.iterdir() if not re.match("pip|setuptools|pkg_", path.name)
    ]
    files = [file for each in counted for file in (each.rglob("*") if each.is_dir() else [each])]
    assert sum(file.stat().st_size for file in files) < 260e6
    assert len(list(packages.glob("*.dist-info"))) <= 68


def test_it_brings_the_names_that_existing_plugins_use(tally: Path, tmp_path: Path) -> None:
    code = (
        "from services.challenge_scorer_protocol import ScoringResult;"
        "from services.scorers.weighted import WeightedScorer;"
        "print(ScoringResult.__module__, WeightedScorer.__module__)"
    )
    printed = run(tally.parent / "python", "-c", code, cwd=tmp_path)
    assert printed.split() == [
        "tallymark.scoring.plugin_contract",
        "tallymark.scoring.weighted_scorer",
    ]


def test_a_users_own_package_services_comes_before_ours(tally: Path, tmp_path: Path) -> None:
    own = tmp_path / "services"
    own.mkdir()
    (own / "__init__.py").write_text("mine = 'mine'")
    code = "import sys; sys.path.append('.'); import services; print(services.mine)"
    assert run(tally.parent / "python", "-P", "-c", code, cwd=tmp_path).strip() == "mine"
