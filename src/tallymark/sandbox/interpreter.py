"""The Python that runs untrusted code: its files on the host, and their places in the sandbox.

Inside, all of it is below `/python`: no path of this machine shows in `sys.path`, in a traceback or
in the listing of a folder. Also the command that starts a module of this package as a program of
its own, without the rest of Tallymark.
"""

from __future__ import annotations

import functools
import glob
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

OUR_CODE = Path(__file__).parents[1]
"""The package `tallymark`, as the host sees it."""
HOME = Path("/python")
"""Place of Python inside; in a program's sandbox it is an environment of the one at `BASE`."""
BASE = HOME / "base"
_LIBRARIES = HOME / "libraries"
_SYSTEM = tuple(Path("/", name) for name in ("usr", "lib", "lib32", "lib64", "nix", "gnu"))
"""Alike on every machine, and named in the programs themselves: these stay where they are."""
_LIBRARY_FOLDER = re.compile(
    r"(/usr)?/lib(32|64|x32|/[a-z0-9_]+-linux-[a-z0-9]+)|/(nix|gnu)/store/.+"
)
"""Folders of the system that hold libraries only. Of any other folder, single files are shown: a
library may be in a user's home folder, next to keys.
"""
_EXTENSIONS = "_ssl _hashlib _ctypes _lzma _bz2 _sqlite3 zlib _uuid readline _curses pyexpat"
"""Parts of the standard library that need libraries of their own."""
_SHOW_LIBRARIES = f"""
for name in {_EXTENSIONS.split()}:
    try: __import__(name)
    except ImportError: pass
print(open("/proc/self/maps").read(), end="")
"""
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
    """The real Python of this process, not the link or copy in a virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(base).resolve()


def sandbox_path() -> Path:
    """Path of this Python in a sandbox of bubblewrap."""
    return BASE / "bin" / host_path().name


@functools.cache
def files() -> dict[Path, Path]:
    """The files this Python needs: itself, its library, shared libraries, their loader.

    Paths on the host, by their paths inside.
    """
    found = {sandbox_path(): host_path()} | dict(_library_folders()) | _own_libraries()
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
    """Environment variables that Python needs to start inside.

    A Python that names the folder of its shared library as a path would look there, where nothing
    is inside; one that looks next to itself needs /proc to find its own place.
    """
    folders = sorted({str(place.parent) for place in _own_libraries() if not _is_system(place)})
    return {"LD_LIBRARY_PATH": ":".join(folders)} if folders else {}


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


@functools.cache
def _is_relocatable() -> bool:
    """True if Python looks for its shared libraries relative to itself."""
    return b"$ORIGIN" in host_path().read_bytes()


@functools.cache
def _own_libraries() -> dict[Path, Path]:
    """Python's own shared libraries outside the system's folders, one by one, by all their names.

    Not what else is loaded here, because a variable or a package asked for it.
    """
    # The loader reports real paths, and a prefix may be a link.
    base, named = Path(sys.base_prefix).resolve(), host_path().read_bytes()
    found: dict[Path, Path] = {}
    for path in _loaded_libraries():
        names = _list_names(path)
        asked = path.is_relative_to(base) or any(each.name.encode() in named for each in names)
        if _find_library_folder(path) is not None or not asked:
            continue
        for each in names:
            place = each if _is_system(each) else _LIBRARIES / each.name
            if _is_relocatable() and each.is_relative_to(base):
                place = BASE / each.relative_to(base)
            found[place] = each
    return found


def _list_names(path: Path) -> list[Path]:
    """The names of one library in its folder: only what leads to the very same file."""
    pattern = f"{glob.escape(path.name.partition('.so')[0])}.so*"
    return [each for each in path.parent.glob(pattern) if each.exists() and each.samefile(path)]


def _system_libraries() -> list[Path]:
    """Folders from which the loader took libraries, under each of their names."""
    folders = filter(None, map(_find_library_folder, _loaded_libraries()))
    found: list[Path] = []
    for folder in dict.fromkeys(folders):
        found.append(folder)
        # /lib may be a link to /usr/lib: programs are linked by either name.
        unmerged = Path("/", folder.relative_to("/").as_posix().removeprefix("usr/"))
        if unmerged.exists():
            found.append(unmerged)
    return found


def _find_library_folder(path: Path) -> Path | None:
    """The system's folder that a library lies in; None when it lies anywhere else."""
    return next((each for each in path.parents if _LIBRARY_FOLDER.fullmatch(str(each))), None)


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _SYSTEM)


@functools.cache
def _loaded_libraries() -> list[Path]:
    """The shared libraries in this process, without those of packages.

    With a relocatable Python (conda, uv), also those that it may load later.
    """
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    if _is_relocatable():
        words = [str(host_path()), "-I", "-S", "-c", _SHOW_LIBRARIES]
        maps += subprocess.run(words, capture_output=True, text=True, env={}, check=False).stdout  # noqa: S603 (our own words)
    paths = dict.fromkeys(Path(line.split(maxsplit=5)[-1]) for line in maps.splitlines())
    return [
        path
        for path in paths
        if path.name.startswith("lib")
        and ".so" in path.name
        and _PACKAGES.isdisjoint(path.parts)
        and path.exists()  # not one that was replaced since it was loaded
    ]


def _loaders() -> list[Path]:
    """Files that start programs and locate libraries."""
    folders = (Path("/lib64"), Path("/lib"))
    found = [path for folder in folders for path in folder.glob("ld-*.so*")]
    cache = Path("/etc/ld.so.cache")
    return [*found, cache] if cache.exists() else found
