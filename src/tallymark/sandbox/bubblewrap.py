"""Bubblewrap: a process with its own view of files, processes and network, and no environment.

`command` gives what to put before a program's own command line.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRATCH = Path("/tally-scratch")
"""Where a sandboxed process may write, as it sees it; no machine has its own data there."""
_NOBODY = "65534"
_SHARED = (Path("/lib"), Path("/usr/lib"), Path("/usr/local/lib"))
"""Folders that hold much besides libraries: only single files of them are shown."""


def executable() -> str | None:
    """Where `bwrap` is, if it is installed."""
    return shutil.which("bwrap")


def command(
    *,
    binds: Sequence[Path],
    scratch_mb: float | None,
    may_mount: bool = False,
    die_with_parent: bool = True,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line up to and with `--`: no network, no /proc, nothing but the binds.

    `binds` are seen read-only where they are. The scratch folder is in memory and holds
    `scratch_mb`; with None it is an empty folder that nobody can write to. `may_mount` leaves the
    program the right to mount within its own view. `die_with_parent` means the thread that starts
    it, not the process: a starter that lives shorter than the program must not ask for it.
    """
    words = [executable() or "bwrap", "--unshare-all", "--unshare-user", "--as-pid-1"]
    words += ["--new-session", "--clearenv", "--hostname", "sandbox"]
    words += ["--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL"]
    words += ["--cap-add", "CAP_SYS_ADMIN"] if may_mount else []
    words += ["--die-with-parent"] if die_with_parent else []
    for name, value in (environment or {}).items():
        words += ["--setenv", name, value]
    for path in sorted(set(binds)):
        words += ["--ro-bind", str(path), str(path)]
    words += ["--dev-bind", os.devnull, os.devnull]
    words += ["--dir", str(SCRATCH)] if scratch_mb is None else _scratch(scratch_mb)
    return [*words, "--remount-ro", "/", "--chdir", str(SCRATCH), "--"]


def _scratch(size_mb: float) -> list[str]:
    return ["--perms", "0700", "--size", str(int(size_mb * 2**20)), "--tmpfs", str(SCRATCH)]


def interpreter() -> Path:
    """The Python that runs this, not the link or copy of it in a virtual environment."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(base).resolve()


@functools.cache
def python_binds() -> list[Path]:
    """What this Python needs to run: itself, its library, and the folders of shared libraries."""
    found = [interpreter(), *_standard_library(), *_shared_libraries(), *_loaders()]
    return list(dict.fromkeys(found))


def _standard_library() -> list[Path]:
    """Its folders; a prefix that is Python's own (pyenv, uv, conda) keeps libraries beside them."""
    base = {"installed_base": sys.base_prefix, "installed_platbase": sys.base_exec_prefix}
    base |= {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    paths = [Path(sysconfig.get_path(name, vars=base)) for name in ("stdlib", "platstdlib")]
    own = Path(sys.base_prefix, "lib")
    return paths if own in _SHARED else [own, *paths]


def _shared_libraries() -> list[Path]:
    """Where the loader took this process's libraries from, under each name of that folder."""
    found: list[Path] = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if not path.name.startswith("lib") or ".so" not in path.name or _installed(path):
            continue
        if path.parent in _SHARED:
            found.append(path)
            continue
        found.append(path.parent)
        unmerged = Path("/", path.parent.relative_to("/").as_posix().removeprefix("usr/"))
        if unmerged.exists():
            found.append(unmerged)
    return found


def _installed(path: Path) -> bool:
    """Of a package, not of Python or the system."""
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _loaders() -> list[Path]:
    """What starts a program and knows where libraries are."""
    folders = (Path("/lib64"), Path("/lib"))
    found = [path for folder in folders for path in folder.glob("ld-*.so*")]
    cache = Path("/etc/ld.so.cache")
    return [*found, cache] if cache.exists() else found
