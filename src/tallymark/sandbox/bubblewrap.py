"""Bubblewrap: a process with its own view of files, processes and network, and no environment.

`command` gives what to put before a program's own command line.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRATCH = Path("/tally-scratch")
"""The scratch folder as a sandboxed process sees it; no machine has its own data there."""
_NOBODY = "65534"


def executable() -> str | None:
    """Path of `bwrap`, if it is installed."""
    return shutil.which("bwrap")


def command(
    *,
    binds: Mapping[Path, Path],
    hidden: Sequence[Path] = (),
    scratch_mb: float | None,
    may_mount: bool = False,
    die_with_parent: bool = True,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line up to and including `--`: no network, no /proc, only the binds.

    `binds` are read-only and keyed by their paths inside; `hidden` folders look empty. The
    scratch folder is in memory and holds `scratch_mb`; with None it is an empty read-only folder.
    `may_mount` leaves the program the right to mount within its own view. `die_with_parent` means
    the thread that starts it, not the process: do not set it for a starter that ends before the
    program.
    """
    # Alone, --unshare-all would go on without a user namespace where there can be none.
    words = [executable() or "bwrap", "--unshare-all", "--unshare-user", "--as-pid-1"]
    # A session of its own, so that nothing inside can type into the terminal of the host.
    words += ["--new-session", "--clearenv", "--hostname", "sandbox"]
    words += ["--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL"]
    words += ["--cap-add", "CAP_SYS_ADMIN"] if may_mount else []
    words += ["--die-with-parent"] if die_with_parent else []
    for name, value in (environment or {}).items():
        words += ["--setenv", name, value]
    words += bind_options(binds, hidden)
    words += ["--dev-bind", os.devnull, os.devnull]
    if scratch_mb is None:
        words += ["--dir", str(SCRATCH)]
    else:
        size = str(int(scratch_mb * 2**20))
        words += ["--perms", "0700", "--size", size, "--tmpfs", str(SCRATCH)]
    return [*words, "--remount-ro", "/", "--chdir", str(SCRATCH), "--"]


def bind_options(binds: Mapping[Path, Path], hidden: Sequence[Path]) -> list[str]:
    """The options that show files read-only, and folders in them as if they were empty."""
    words = []
    for place in sorted(binds):
        words += ["--ro-bind", str(binds[place]), str(place)]
    for place in hidden:
        words += ["--tmpfs", str(place), "--remount-ro", str(place)]
    return words
