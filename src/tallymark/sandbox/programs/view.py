"""What a program sees of the machine: the system's programs, Python, its scratch folder.

`/usr` is open to read, with the loader's files; nobody's home, no `/etc`, no `/tmp` of the host.
Python stands in an environment made for the run, so that neither the user's own nor where it
lies matters: with packages, their folder appears in it.
"""

from __future__ import annotations

import os
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from tallymark.sandbox import boot, bubblewrap

PYTHON_HOME = Path("/python")
CODE = Path("/launcher")
"""Where the launcher's own files are: in the view, but behind Landlock for the program."""
DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom"))
_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"))
_LOADER = (Path("/etc/ld.so.cache"), Path("/etc/alternatives"))
PYTHON_NAMES = ("python", "python3")
_ENOUGH_UIDS = 2**31
_UNUSED_UIDS = 1_879_048_192
"""From here to 2**31 no distribution and no container gives out uids."""


def packages_folders(*, wanted: bool) -> dict[Path, Path]:
    """The folders of this environment's packages, by where they lie within an environment."""
    if not wanted or sys.prefix == sys.base_prefix:
        return {}
    found = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return {path.relative_to(sys.prefix): path for path in sorted(found)}


def python_settings(*, packages: bool) -> str:
    """The `pyvenv.cfg` of the program's Python."""
    # Outside a virtual environment, packages are those of the system's Python.
    shared = packages and sys.prefix == sys.base_prefix
    home = bubblewrap.interpreter().parent
    return f"home = {home}\ninclude-system-site-packages = {str(shared).lower()}\n"


def environment(home: Path, scratch: Path) -> dict[str, str]:
    """All of it: the same for every program, so that its runs are alike."""
    return {
        "PATH": f"{home / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def readable(home: Path, *, packages: bool) -> list[Path]:
    """What Landlock lets a program read and start, its scratch folder aside."""
    places = [*_SYSTEM, *_LOADER, *bubblewrap.python_binds(), home]
    return [*places, *packages_folders(wanted=packages).values()]


def sandbox_uid() -> int | None:
    """The uid to take on inside when we are root; None for everyone else.

    Root mapped into a user namespace stays root to the kernel: /proc/sys would be open to it, and
    no limit on processes would hold. Each sandbox has a uid of its own, and so a count of its own.
    """
    if os.geteuid() != 0:
        return None
    first, _, count = Path("/proc/self/uid_map").read_text(encoding="utf-8").split()[:3]
    if int(first) == 0 and int(count) >= _ENOUGH_UIDS:
        return _UNUSED_UIDS + secrets.randbelow(_ENOUGH_UIDS - _UNUSED_UIDS)
    return 65_534


def wrapped(
    *, scratch_bytes: int, packages: bool = False, settings: Sequence[str] = ()
) -> list[str]:
    """The command line of bubblewrap up to and with `--`; `settings` are further options."""
    words = [bubblewrap.executable() or "bwrap", *_namespaces(), "--die-with-parent"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox"]
    words += [*_files(packages=packages), *settings]
    words += ["--proc", "/proc"]
    for device in DEVICES:
        words += ["--dev-bind", str(device), str(device)]
    scratch = bubblewrap.SCRATCH
    words += ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", str(scratch)]
    # One limit holds for all that a program can write: /tmp and shared memory lie in it too.
    for name in ("/tmp", "/dev/shm"):  # noqa: S108 (not of the host)
        words += ["--symlink", str(scratch), name]
    return [*words, "--remount-ro", "/", "--chdir", str(scratch), "--"]


def _namespaces() -> list[str]:
    if os.geteuid() != 0:
        return ["--unshare-all", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    words = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    # The launcher needs these two to take on its uid, and loses them by it.
    return [*words, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]


def _files(*, packages: bool) -> list[str]:
    """What is read-only: the system, then all else, each where it is to be seen."""
    words = []
    for path in _SYSTEM:
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    seen = {path: path for path in bubblewrap.python_binds() if not _in_system(path)}
    seen |= {path: path for path in _LOADER if path.exists()}
    seen |= {
        PYTHON_HOME / within: path for within, path in packages_folders(wanted=packages).items()
    }
    seen |= {CODE / "sandbox": boot.CODE / "sandbox"}
    links = {PYTHON_HOME / "bin" / name: bubblewrap.interpreter() for name in PYTHON_NAMES}
    words += _parents([*seen, *links, *DEVICES])
    for place in sorted(seen):
        words += ["--ro-bind", str(seen[place]), str(place)]
    for place, target in links.items():
        words += ["--symlink", str(target), str(place)]
    return words


def _parents(paths: Iterable[Path]) -> list[str]:
    """Folders on the way: those that bubblewrap makes unasked are open to root only."""
    above = sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
    return [word for folder in above for word in ("--dir", str(folder))]


def _in_system(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _SYSTEM)
