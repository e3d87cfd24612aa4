"""The parts of the machine that a program sees: the system's programs, Python, its scratch folder.

`/usr` is open to read, with the loader's files; no home folder, no `/etc`, no `/tmp` of the host.
Python is in an environment made for the run, so that neither the user's own nor its place matters:
with packages, their folder appears in it. In bubblewrap all of it is in `/python`.
"""

from __future__ import annotations

import os
import re
import secrets
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from tallymark.sandbox import bubblewrap, interpreter

LAUNCHER_CODE = Path("/launcher")
"""Place of the launcher's own files: in the view, but hidden from the program by Landlock."""
DEVICES = tuple(Path("/dev", name) for name in ("null", "full", "random", "urandom"))
ZERO = Path("/dev/zero")
"""In bubblewrap `/dev/full`, from which zeros are read too: the real one can be mapped as shared
memory, which no limit counts. Without bubblewrap there is none."""
_SYSTEM = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"))
_LOADER = (Path("/etc/ld.so.cache"), Path("/etc/alternatives"))
_SOURCES = (Path("/usr/src"), Path("/usr/local/src"))
"""Folders of `/usr` in which people work."""
PYTHON_NAMES = ("python", "python3")
_EMPTY_FILE = interpreter.OUR_CODE / "py.typed"
_ENOUGH_UIDS = 2**31
_UNUSED_UIDS = 1_879_048_192
"""From here to 2**31 no distribution and no container gives out uids."""


def find_packages(*, wanted: bool) -> dict[Path, Path]:
    """The folders of this environment's packages, by where they lie within an environment."""
    if not wanted or sys.prefix == sys.base_prefix:
        return {}
    found = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    return {path.relative_to(sys.prefix): path for path in sorted(found)}


def make_python_settings(python: Path, *, packages: bool) -> str:
    """The `pyvenv.cfg` of an environment of that Python."""
    # Outside a virtual environment, packages are those of the system's Python.
    shared = packages and sys.prefix == sys.base_prefix
    return f"home = {python.parent}\ninclude-system-site-packages = {str(shared).lower()}\n"


def make_environment(home: Path, scratch: Path, *, alone: bool) -> dict[str, str]:
    """All of it: the same for every program, so that its runs are alike.

    `alone` in a view of its own, where Python may need more to start.
    """
    return (interpreter.variables() if alone else {}) | {
        "PATH": f"{home / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }


def list_readable(home: Path, *, packages: bool, alone: bool) -> list[Path]:
    """Paths that Landlock lets a program read and start, besides its scratch folder.

    `alone` in a view of its own, which holds no more of Python than it may see.
    """
    places = [*_SYSTEM, *_LOADER, home]
    if alone:
        return [*places, *interpreter.files()]
    return [*places, *interpreter.files().values(), *find_packages(wanted=packages).values()]


def choose_uid() -> int | None:
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


def make_command(
    *, scratch_bytes: int, packages: bool = False, settings: Sequence[str] = ()
) -> list[str]:
    """The command line of bubblewrap up to and with `--`; `settings` are further options."""
    words = [bubblewrap.executable() or "bwrap", *_namespace_options(), "--die-with-parent"]
    words += ["--new-session", "--as-pid-1", "--hostname", "sandbox", "--clearenv"]
    words += [*_file_options(packages=packages), *settings]
    for name, value in interpreter.variables().items():
        words += ["--setenv", name, value]
    words += ["--proc", "/proc"]
    for device in DEVICES:
        words += ["--dev-bind", str(device), str(device)]
    words += ["--dev-bind", "/dev/full", str(ZERO)]
    scratch = bubblewrap.SCRATCH
    words += ["--perms", "1777", "--size", str(scratch_bytes), "--tmpfs", str(scratch)]
    # One limit holds for all that a program can write: /tmp and shared memory lie in it too.
    for name in ("/tmp", "/dev/shm"):  # noqa: S108 (not of the host)
        words += ["--symlink", str(scratch), name]
    return [*words, "--remount-ro", "/", "--chdir", str(scratch), "--"]


def _namespace_options() -> list[str]:
    if os.geteuid() != 0:
        return ["--unshare-all", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    words = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    # The launcher needs these two to take on its uid, and loses them by it.
    return [*words, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]


def _file_options(*, packages: bool) -> list[str]:
    """Options for read-only files: the system first, then all others."""
    words = []
    for path in _SYSTEM:
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    seen = {
        place: path
        for place, path in interpreter.files().items()
        if not any(place.is_relative_to(each) for each in _SYSTEM)
    }
    seen |= {path: path for path in _LOADER if path.exists()}
    seen |= _list_package_binds() if packages else {}
    seen |= {LAUNCHER_CODE / "sandbox": interpreter.OUR_CODE / "sandbox"}
    links = {interpreter.HOME / "bin" / name: interpreter.sandbox_path() for name in PYTHON_NAMES}
    words += _folder_options([*seen, *links, *DEVICES])
    words += bubblewrap.bind_options(seen, _list_hidden_folders(packages=packages))
    for place, target in links.items():
        words += ["--symlink", str(target), str(place)]
    return words


def _list_package_binds() -> dict[Path, Path]:
    """The folders of packages, by where they are seen, and what is laid over files in them."""
    found = {interpreter.HOME / at: path for at, path in find_packages(wanted=True).items()}
    if not found:
        base = Path(sys.base_prefix)
        paths = [path for path in map(Path, site.getsitepackages()) if path.is_dir()]
        found = {interpreter.BASE / path.relative_to(base): path for path in paths}
    for place, path in tuple(found.items()):
        found |= {place / each: _EMPTY_FILE for each in _find_telling_files(path)}
    return found


def _find_telling_files(packages: Path) -> list[Path]:
    """Files that only say where on this machine a package lies that is worked on."""
    found = [path for path in packages.glob("*.pth") if re.search(rb"(?m)^/", path.read_bytes())]
    found += packages.glob("*.dist-info/direct_url.json")
    return [path.relative_to(packages) for path in found]


def _list_hidden_folders(*, packages: bool) -> list[Path]:
    """Folders that must look empty."""
    found = [path for path in _SOURCES if path.is_dir()]
    shared = packages and sys.prefix == sys.base_prefix
    return found if shared else [*found, *interpreter.hidden_folders()]


def _folder_options(paths: Iterable[Path]) -> list[str]:
    """Folders on the way: those that bubblewrap makes unasked are open to root only."""
    above = sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
    return [word for folder in above for word in ("--dir", str(folder))]
