"""The Python that untrusted code runs on: its files here, and where they lie inside the sandbox.

Inside, everything of it is below `/python`, whoever's home it lies in outside: no path of this
machine shows in `sys.path`, in a traceback or in the listing of a folder. Also how a module of
this room is started on it as a program of its own, without the rest of Tallymark.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path

OUR_CODE = Path(__file__).parents[1]
"""The package `tallymark`, as the host sees it."""
HOME = Path("/python")
"""Where Python is inside; in a program's sandbox this is an environment, `BASE` what it is of."""
BASE = HOME / "base"
_LIBRARIES = HOME / "libraries"
_SHARED = (Path("/lib"), Path("/usr/lib"), Path("/usr/local/lib"))
"""Folders that hold much besides libraries: only single files of them are shown."""
_SYSTEM = tuple(Path("/", name) for name in ("usr", "lib", "lib32", "lib64", "nix", "gnu"))
"""Alike on every machine, and named in the programs themselves: these stay where they are."""
_PACKAGES = frozenset({"site-packages", "dist-packages"})
# Only the modules that it names are loaded, not what the packages above them export.
_START = """
import sys, types
for name, folder in (("tallymark", sys.argv[1]), ("tallymark.sandbox", sys.argv[1] + "/sandbox")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
name = sys.argv[2]
del sys.argv[1:3]
__import__(name)
sys.modules[name].main()
"""


def host_path() -> Path:
    """The Python that runs this, not the link or copy of it in a virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(base).resolve()


def sandbox_path() -> Path:
    """The same in a sandbox of bubblewrap."""
    return BASE / "bin" / host_path().name


@functools.cache
def files() -> dict[Path, Path]:
    """What this Python needs to run: itself, its library, shared libraries, what loads them.

    By where they are seen inside; the values are where they are here.
    """
    found = {sandbox_path(): host_path()} | _standard_library() | _own_libraries()
    return found | {path: path for path in (*_system_libraries(), *_loaders())}


@functools.cache
def hidden_folders() -> list[Path]:
    """Folders inside that must look empty: packages that lie within Python's own library."""
    libraries = dict(_library_folders()).items()
    return [
        place / name for place, path in libraries for name in _PACKAGES if (path / name).is_dir()
    ]


@functools.cache
def variables() -> dict[str, str]:
    """What the environment must hold inside for Python to start there.

    A Python that names the folder of its shared library outright would look for it at a path that
    does not exist inside.
    """
    moved = any(place.is_relative_to(_LIBRARIES) for place in files())
    return {"LD_LIBRARY_PATH": str(_LIBRARIES)} if moved else {}


def module_command(
    module: str, *arguments: str, code: Path = OUR_CODE, python: Path | None = None
) -> list[str]:
    """The command line that calls `main` of a module; `code` is where `sandbox/` lies."""
    start = [str(python or host_path()), "-I", "-S", "-c", _START]
    return [*start, str(code), module, *arguments]


def _library_folders() -> list[tuple[Path, Path]]:
    """The folders of the standard library, each with where it is seen."""
    base = {"installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
    base |= {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    found = []
    for name, prefix in (("stdlib", sys.base_prefix), ("platstdlib", sys.base_exec_prefix)):
        path = Path(sysconfig.get_path(name, vars=base))
        found.append((BASE / path.relative_to(prefix), path))
    return found


def _standard_library() -> dict[Path, Path]:
    """With all beside it where Python looks there for shared libraries (conda, uv)."""
    found = dict(_library_folders())
    own = Path(sys.base_prefix, "lib")
    if own not in _SHARED and _is_relocatable():
        found[BASE / "lib"] = own
    return found


@functools.cache
def _is_relocatable() -> bool:
    """Whether Python looks for its shared libraries beside itself, wherever that is."""
    return b"$ORIGIN" in host_path().read_bytes()


def _own_libraries() -> dict[Path, Path]:
    """Shared libraries that lie apart from the system's, one by one and under all their names."""
    found: dict[Path, Path] = {}
    for path in _loaded_libraries():
        if _is_system(path) or (path.is_relative_to(sys.base_prefix) and _is_relocatable()):
            continue
        names = path.parent.glob(f"{path.name.partition('.so')[0]}.so*")
        found |= {_LIBRARIES / each.name: each for each in names}
    return found


def _system_libraries() -> list[Path]:
    """Where the loader took this process's libraries from, under each name of that folder."""
    found: list[Path] = []
    for path in filter(_is_system, _loaded_libraries()):
        if path.parent in _SHARED:
            found.append(path)
            continue
        found.append(path.parent)
        # /lib may be a link to /usr/lib: programs are linked by either name.
        unmerged = Path("/", path.parent.relative_to("/").as_posix().removeprefix("usr/"))
        if unmerged.exists():
            found.append(unmerged)
    return found


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _SYSTEM)


@functools.cache
def _loaded_libraries() -> list[Path]:
    """The shared libraries in this process, but for those of packages."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = dict.fromkeys(Path(line.split(maxsplit=5)[-1]) for line in lines)
    return [
        path
        for path in paths
        if path.name.startswith("lib") and ".so" in path.name and _PACKAGES.isdisjoint(path.parts)
    ]


def _loaders() -> list[Path]:
    """What starts a program and knows where libraries are."""
    folders = (Path("/lib64"), Path("/lib"))
    found = [path for folder in folders for path in folder.glob("ld-*.so*")]
    cache = Path("/etc/ld.so.cache")
    return [*found, cache] if cache.exists() else found
