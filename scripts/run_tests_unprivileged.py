"""Run tests as an ordinary user with its own home; used by `make test` when run as root.

What root may do hides what others may not: files that only root can read, a Python in /root, a
virtual environment in somebody's home. The user is a number that nobody has, its home is made for
the run and gone after it, and in it lie a copy of this tree and an environment like ours. Nothing
is installed: the packages are those of the environment that runs this, linked where they can be.

When nobody is root, the tests have run as an ordinary user already, and nothing is run here.
When root's Python cannot be entered by others and there is no other, this fails: install one, or
leave this out by name, with TALLY_ORDINARY_USER=no.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PACKAGES = Path(sysconfig.get_path("purelib"))
FIRST_UID, UIDS = 60_000, 4_999
"""Debian keeps these numbers for nobody in particular."""
LATER = (
    "tests/sandbox/plugins",
    "tests/sandbox/test_plugin_sandbox.py",
    "tests/sandbox/test_conformance.py::test_no_attack_succeeds[bubblewrap",
    "tests/sandbox/test_program_run_hostile.py::test_what_is_outside_is_out_of_reach[bubblewrap",
    "tests/sandbox/test_program_run_hostile.py::test_what_passes_a_limit_is_stopped[bubblewrap",
    *(f"tests/cli/test_{name}.py" for name in ("challenge", "plugin", "run")),
)
"""Warm plugins and long commands, behind walls that the tests of walls have tried already, and
attacks on the walls that root has tried: only with `--whole`, which `make proof` says."""
TESTS = (
    "tests/sandbox",
    "tests/refused/test_acting_outside_the_walls.py",
    "tests/refused/test_reading_beside_a_library.py",
    *(f"tests/cli/test_{name}.py" for name in ("challenge", "doctor", "plugin", "run")),
)
"""Walls, and commands that run strangers' code or keep something at home. Other commands read and
write in the folder where they are, which is theirs whoever they are."""
PURE = ("tests/sandbox/plugins/test_plain_data.py", "tests/sandbox/plugins/test_answer_frames.py")
"""Tests of plain functions over bytes, the same for everyone: they are not run again."""


def say(text: str) -> None:
    sys.stderr.write(f"ordinary user: {text}\n")


def main(tests: Sequence[str], left_out: Sequence[str]) -> int:
    """The exit status of pytest, or 1 when it could not be run."""
    if os.geteuid() != 0:
        say("this is not root, so the tests above have run as one")
        return 0
    if os.environ.get("TALLY_ORDINARY_USER") == "no":
        say("left out, because TALLY_ORDINARY_USER=no")
        return 0
    uid = unused_uid()
    python = find_python(uid)
    if python is None:
        version = ".".join(map(str, sys.version_info[:2]))
        say(f"no Python {version} here that others than root can start, or root may not become")
        say("another user: install one (Debian: the package python3), run `make test` as somebody")
        say("else, or set TALLY_ORDINARY_USER=no to leave these tests out")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the home goes away then too
    with home_of(uid) as home:
        settle(home, uid, python)
        say(f"running {' '.join(tests)} as user {uid} at home in {home}, with {python}")
        pytest = [
            "-m",
            "pytest",
            "-q",
            "-n",
            "2",
            "--dist=worksteal",
            "-p",
            "no:cacheprovider",
            *(f"--deselect={each}" if "::" in each else f"--ignore={each}" for each in left_out),
            *tests,
        ]
        return run_as(uid, [str(home / "tree/.venv/bin/python"), *pytest], home).returncode


def unused_uid() -> int:
    """One that is in no book and that no process has."""
    while True:
        uid = FIRST_UID + secrets.randbelow(UIDS)
        try:
            pwd.getpwuid(uid)
        except KeyError:
            if not any(owner == uid for owner in _owners()):
                return uid


def _owners() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield process.stat().st_uid
        except FileNotFoundError:
            continue


def find_python(uid: int) -> Path | None:
    """One that this user can start, of our version: packages with compiled parts fit no other."""
    major, minor = sys.version_info[:2]
    base = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    names = (f"python{major}.{minor}", "python3")
    others = [Path(folder, name) for folder in ("/usr/bin", "/usr/local/bin") for name in names]
    trial = f"import ctypes, ssl, venv, sys; sys.exit(sys.version_info[:2] != {major, minor})"
    for python in (base, *others):
        try:
            if run_as(uid, [str(python), "-I", "-c", trial], Path("/"), quiet=True).returncode == 0:
                return python
        except OSError:
            continue
    return None


def run_as(
    uid: int, words: list[str], home: Path, *, quiet: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """In the tree of that home, with an environment that holds nothing of root's."""
    environment = {
        "HOME": str(home),
        "USER": f"user{uid}",
        "LOGNAME": f"user{uid}",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
    }
    tree, temporary = home / "tree", home / "tmp"
    if temporary.is_dir():
        environment["TMPDIR"] = str(temporary)
    return subprocess.run(
        words,
        check=False,
        user=uid,
        group=uid,
        extra_groups=[],
        umask=0o022,
        env=environment,
        cwd=tree if tree.is_dir() else home,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if quiet else None,
    )


@contextmanager
def home_of(uid: int) -> Iterator[Path]:
    """A folder that is theirs alone; on the disk of our packages if it can be, to link them."""
    places = [place for place in (Path("/home"), Path("/var/tmp"), Path("/tmp")) if place.is_dir()]
    disk = PACKAGES.stat().st_dev
    place = next((place for place in places if place.stat().st_dev == disk), places[0])
    home = Path(tempfile.mkdtemp(prefix="tally-user-", dir=place))
    try:
        (home / "tmp").mkdir()
        give(home, uid)
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def settle(home: Path, uid: int, python: Path) -> None:
    """A copy of the tree, compiled as far as it is, and an environment in it with our packages."""
    tree = home / "tree"
    for name in tracked():
        if (TREE / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, tree / name)
    for cached in [each for room in ("src", "tests") for each in TREE.glob(f"{room}/**/*.pyc")]:
        there = tree / cached.relative_to(TREE)
        if there.parent.parent.is_dir():
            there.parent.mkdir(exist_ok=True)
            shutil.copy2(cached, there)
    give(tree, uid)
    venv = tree / ".venv"
    done = run_as(uid, [str(python), "-m", "venv", "--without-pip", str(venv)], home)
    done.check_returncode()
    packages = venv / PACKAGES.relative_to(sys.prefix)
    link(PACKAGES, packages)
    for path in packages.glob("*.pth"):
        rewrite(path, str(TREE), str(tree))
    for path in Path(sys.prefix, "bin").iterdir():
        if path.is_file() and not (venv / "bin" / path.name).exists():
            shutil.copy2(path, venv / "bin" / path.name)
            rewrite(venv / "bin" / path.name, sys.prefix, str(venv))
    give(venv, uid)


def tracked() -> list[str]:
    """The files of this tree, those of today included, without what was made from them."""
    words = ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(words, cwd=TREE, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name]


def link(source: Path, target: Path) -> None:
    """The same files under another folder, as links where others may read them."""
    for folder, _, names in os.walk(source):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = Path(folder, name)
            # What is rewritten or given away later must not be the same file.
            if path.is_symlink() or path.suffix == ".pth" or not path.stat().st_mode & stat.S_IROTH:
                shutil.copy2(path, there / name)
                continue
            try:
                os.link(path, there / name)
            except OSError:
                shutil.copy2(path, there / name)


def rewrite(path: Path, old: str, new: str) -> None:
    """Put a path in place of another; files that hold no text stay as they are."""
    data = path.read_bytes()
    if b"\0" not in data:
        path.write_bytes(data.replace(old.encode(), new.encode()))


def give(place: Path, uid: int) -> None:
    """All of it to the user, but for files that are ours too."""
    for folder, _, names in os.walk(place):
        os.chown(folder, uid, uid)
        for name in names:
            path = Path(folder, name)
            if path.lstat().st_nlink == 1:
                os.chown(path, uid, uid, follow_symlinks=False)


if __name__ == "__main__":
    whole = sys.argv[1:] == ["--whole"]
    sys.exit(main(TESTS, PURE) if whole else main(sys.argv[1:] or TESTS, (*PURE, *LATER)))
