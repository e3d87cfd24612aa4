"""No path of the host shows inside, wherever Python, its packages and our own code lie."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyseccomp  # type: ignore[import-untyped]
import pytest
from tests.sandbox.backends import SAFE
from tests.sandbox.sample_plugins import ORDINARY, plugin

import tallymark
from tallymark.sandbox import Limits, Policy, interpreter, run_program
from tallymark.sandbox.conformance import host_paths, load_attacks
from tallymark.sandbox.plugins import guest_handle

pytestmark = pytest.mark.skipif("bubblewrap" not in SAFE, reason="no bubblewrap here")

CASE = next(case for case in load_attacks("bubblewrap") if case.name == "no path of the host shows")
PROGRAM = f"""{CASE.source}
import json
print(json.dumps(Plugin().score({{}}, json.load(sys.stdin), {{}})["details"]))
"""


def seen_by_a_program(paths: list[str], *, packages: bool) -> dict[str, str]:
    """What a program finds of these paths, by where it found it."""
    given = {"host_paths": paths, "known": ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"]}
    outcome = run_program(
        ["python", "main.py"],
        files={"main.py": PROGRAM},
        stdin=json.dumps(given),
        limits=Limits(wall_s=60, memory_mb=512, processes=4, open_files=64),
        packages=packages,
        policy=Policy("bubblewrap"),
    )
    assert outcome.ok, outcome.stderr.decode()
    details: dict[str, str] = json.loads(outcome.stdout)
    return {name: said for name, said in details.items() if said.startswith("reached")}


@pytest.mark.parametrize("packages", [False, True], ids=["alone", "with packages"])
def test_a_program_sees_no_path_of_the_host(packages: bool) -> None:
    assert seen_by_a_program(host_paths(), packages=packages) == {}


def test_the_search_finds_what_is_there() -> None:
    found = seen_by_a_program(["/python/base"], packages=False)
    assert {"base_prefix", "path", "traceback", "folders", "/proc/self/exe"} <= found.keys()


def test_the_setup_of_a_guest_names_no_path_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin can find all of it in the memory of its process."""
    told = []

    def encode(value: object) -> bytes:
        told.append(data := msgspec.msgpack.encode(value))
        return data

    monkeypatch.setattr(guest_handle, "encode", encode)
    code = plugin(tmp_path / "root", ORDINARY)
    guest = guest_handle.GuestHandle(code, "bubblewrap", Limits(), apart=False)
    guest.close()
    assert b"/plugin" in told[0]
    assert not [path for path in (*host_paths(), str(tmp_path)) if path.encode() in told[0]]


ELSEWHERE = """
import json, sys, tempfile
from pathlib import Path
from tests.sandbox.test_interpreter import CASE, seen_by_a_program
from tallymark.sandbox import Policy, Sandbox, interpreter
from tallymark.sandbox.conformance import Conformance, host_paths

with (
    tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder,
    Conformance(Path(folder, "suite")) as suite,
    Sandbox(Policy("bubblewrap")) as sandbox,
):
    print(json.dumps({
        "paths": host_paths(),
        "plugin": suite.failures(sandbox, CASE),
        "alone": seen_by_a_program(host_paths(), packages=False),
        "packages": seen_by_a_program(host_paths(), packages=True),
    }))
"""


def _places() -> list[Path]:
    """Where people keep their clones, as far as we may write there."""
    places = dict.fromkeys((Path.home(), Path("/home"), Path("/opt")))
    return [place for place in places if os.access(place, os.W_OK)]


@pytest.fixture
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=request.param, prefix="tally test ä ") as made:
        yield Path(made)


def _settle(place: Path, python: Path) -> Path:
    """A clone and a virtual environment, with the clone installed to be worked on; its Python."""
    source = Path(tallymark.__file__).parents[1]
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, place / "clone" / "src", ignore=left_out)
    shutil.copytree(Path(__file__).parent, place / "clone/tests/sandbox", ignore=left_out)
    words = [str(python), "-m", "venv", "--without-pip", str(place / "venv")]
    subprocess.run(words, check=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = place / "venv" / "lib" / version / "site-packages"
    shutil.copytree(Path(msgspec.__file__).parent, packages / "msgspec", ignore=left_out)
    shutil.copy(pyseccomp.__file__, packages)
    (packages / "clone.pth").write_text(f"{place}/clone/src\n{place}/clone\n", encoding="utf-8")
    # The tests themselves need pytest and more, which only they may see.
    (packages / "more.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    about = packages / "clone-1.dist-info"
    about.mkdir()
    (about / "direct_url.json").write_text(f'{{"url": "file://{place}"}}', encoding="utf-8")
    return place / "venv" / "bin" / "python"


def _look(python: Path, place: Path) -> dict[str, object]:
    words = [str(python), "-c", ELSEWHERE, str(place)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place)}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=place, env=environment
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("elsewhere", _places(), indirect=True, ids=str)
def test_a_clone_and_its_environment_may_lie_anywhere(elsewhere: Path) -> None:
    found = _look(_settle(elsewhere, Path(sys.executable)), elsewhere)
    assert {f"{elsewhere}/venv", f"{elsewhere}/clone/src/tallymark"} <= {*found.pop("paths")}  # type: ignore[misc]
    assert found == {"plugin": [], "alone": {}, "packages": {}}


@pytest.mark.parametrize("elsewhere", [Path(tempfile.gettempdir())], indirect=True, ids=["own"])
def test_python_itself_may_lie_anywhere(elsewhere: Path) -> None:
    home = elsewhere / "own python"
    for place, path in interpreter.files().items():
        within = home / place.relative_to(interpreter.BASE) if _is_own(place) else None
        if within is not None:
            within.parent.mkdir(parents=True, exist_ok=True)
            _copy(path, within)
    found = _look(_settle(elsewhere, home / "bin" / interpreter.host_path().name), elsewhere)
    assert str(home) in found.pop("paths")  # type: ignore[operator]
    assert found == {"plugin": [], "alone": {}, "packages": {}}


def test_python_is_seen_without_its_environment() -> None:
    places = interpreter.files().values()
    assert interpreter.host_path() in places
    assert not [place for place in places if place.is_relative_to(sys.prefix)] or (
        sys.prefix == sys.base_prefix
    )
    assert not {Path("/"), Path("/usr"), Path.home()} & set(places)


def _is_own(place: Path) -> bool:
    return place.is_relative_to(interpreter.BASE)


def _copy(path: Path, target: Path) -> None:
    if path.is_file():
        shutil.copy(path, target)
        return
    unneeded = ("__pycache__", "*-packages", "config-*", "ensurepip", "idlelib", "lib2to3", "test")
    left_out = shutil.ignore_patterns(*unneeded, "tests", "tkinter", "turtledemo")
    shutil.copytree(path, target, ignore=left_out, dirs_exist_ok=True)
