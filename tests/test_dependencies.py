"""What the package needs is pinned, looked after and told; what is built is the same every time."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import audit, sbom
from scripts.dependencies import (
    Dependency,
    find_dependencies,
    list_extras,
    read_pins,
    read_project,
)
from tests.container_file import copy_sources

ROOT = Path(__file__).parents[1]
NAMES = {
    "backports": "backports-zstd",
    "compression": None,  # in Python's library since 3.14
    "fastmcp": "fastmcp-slim",
    "google.protobuf": "protobuf",
    "jsonschema_specifications": "jsonschema-specifications",
    "markdown_it": "markdown-it-py",
    "opentelemetry.context": "opentelemetry-api",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "pydantic_ai": "pydantic-ai-slim",
    "yaml": "pyyaml",
}
"""Packages that are not called like what is imported from them."""
BROUGHT = {"deepeval", "inspect-ai", "pydantic-evals", "pytest"}
"""Libraries that a user has, whose scorers or tests we take."""


def test_a_service_that_does_not_answer_is_said_and_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "SERVICE", "http://127.0.0.1:9/nobody")
    monkeypatch.setattr(audit, "check_installed", list)  # which `make check` does, in seconds
    assert audit.main([]) == 0
    assert "no service of advisories answers; 0 findings" in capsys.readouterr().out


def test_what_a_service_knows_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.dumps({"results": [{}, {"vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}]}]})
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: open_text(told))
    assert audit.ask_service({"a": "1", "b": "2"}) == ["b 2: PYSEC-1, CVE-2"]
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: open_text("<html>"))
    assert audit.ask_service({"a": "1"}) is None


def open_text(text: str) -> Any:
    from io import BytesIO

    return BytesIO(text.encode())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (audit.find_unpinned([Dependency("new", "1")], {}), "new is needed and not pinned"),
        (
            audit.find_misfits({"base": ["numpy>=99"]}, {"numpy": "2.0"}),
            "numpy is pinned to 2.0, and base asks for >=99",
        ),
        (
            audit.find_strangers([Dependency("pytest", "1")], {"pytest": "0.1"}),
            "is installed, 0.1 is pinned",
        ),
        (
            audit.find_licence_problems([Dependency("x", "1", licence="MIT AND AGPL-3.0-only")]),
            "x is under 'AGPL-3.0-only', which is not on the list",
        ),
        (audit.find_licence_problems([Dependency("x", "1")]), "does not say under which licence"),
        (
            audit.find_known_holes({"x-y": "1.9"}, {"X_Y": {"mended": "1.10", "why": "a hole"}}),
            "X_Y 1.9: a hole; mended in 1.10",
        ),
    ],
)
def test_what_is_wrong_is_found(found: Any, said: str) -> None:
    (only,) = found
    assert said in only


@pytest.mark.parametrize("line", ["numpy", "numpy>=2", "numpy==2.*", "-e .", "==1"])
def test_a_line_that_pins_nothing_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "constraints.txt"
    path.write_text(f"pyyaml==6.0.1\n{line}\n")
    with pytest.raises(ValueError, match=r"constraints.txt, line 2: "):
        read_pins(path)


def test_the_bill_of_materials_names_all_that_an_install_brings() -> None:
    document = json.loads(sbom.PAGE.read_text(encoding="utf-8"))
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    told = {each["name"]: each for each in document["components"]}
    pins = read_pins()
    for extra, texts in list_extras(read_project()).items():
        for wanted in map(Requirement, texts if extra != "dev" else ()):
            each = told[canonicalize_name(wanted.name)]
            assert {"name": "tallymark:install", "value": extra} in each["properties"]
            assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
    references = {each["bom-ref"] for each in document["components"]}
    for each in document["dependencies"]:
        assert references >= set(each["dependsOn"])
    if sys.version_info[:2] == (3, 11) and sys.platform == "linux":  # for which it is made
        assert set(told) == set(find_dependencies())
        assert all(each["version"] == pins[name] for name, each in told.items())
        assert sbom.make_sbom() == sbom.PAGE.read_text(encoding="utf-8"), "run: make sbom"


def test_what_is_imported_is_declared() -> None:
    """Not only brought by another package, which may stop doing so; see tests/test_wheel.py too."""
    extras = list_extras(read_project())
    declared = {
        canonicalize_name(Requirement(text).name)
        for extra, texts in extras.items()
        if extra != "dev"
        for text in texts
    }
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for name in find_imports(path)
        if name not in declared | BROUGHT
    }
    assert not undeclared


def find_imports(path: Path) -> set[str]:
    """The packages of others that a module imports, anywhere in it."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            modules += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules += [f"{node.module}.{each.name}" for each in node.names]
    found: set[str] = set()
    for module in modules:
        first, *rest = module.split(".")
        if first not in {*sys.stdlib_module_names, "services", "tallymark"}:
            name = NAMES.get(".".join((first, *rest[:1])), NAMES.get(first, first))
            found |= {canonicalize_name(name)} if name else set()
    return found


def build(folder: Path, mode: int, mask: int) -> dict[str, str]:
    """The hashes of wheel and sdist, built from a copy whose files have these rights."""
    folder.mkdir()
    copy_sources(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (mode * 1e6, mode * 1e6))
    words = ["-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", "dist"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        umask=mask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "dist").iterdir()
    }


@pytest.mark.proof
def test_two_builds_are_the_same_to_the_byte(tmp_path: Path) -> None:
    """In other folders, from files of other times and rights, under another umask."""
    first = build(tmp_path / "one", 0o644, 0o022)
    assert len(first) == 2
    assert build(tmp_path / "another-place", 0o600, 0o077) == first
    (wheel,) = (tmp_path / "one" / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (carried,) = [name for name in archive.namelist() if ".dist-info/sboms/" in name]
        assert archive.read(carried) == sbom.PAGE.read_bytes()
