"""Resource use of processes, from /proc. Imports only the standard library, for the launcher."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LINE = re.compile(r"(\w+:)\s+([0-9]+) kB")


class CpuMeter:
    """The processor time of processes that come and go, by sampling."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def read(self, pids: Iterable[int], buried_s: float = 0.0) -> float:
        """The larger of two sums, neither of which ever exceeds the real use.

        One is the kernel's count of the living, of the children that they waited for, and of those
        that the caller `buried_s`. It misses children whose parent ignores their end. The other is
        the last reading of every process.
        """
        counted = 0
        for pid in pids:
            # The name in parentheses may hold anything, more parentheses too.
            fields = [int(each) for each in _read_proc(pid, "stat").rpartition(")")[2].split()[1:]]
            if fields:
                counted += sum(fields[10:14])
                self._seen[pid, fields[18]] = fields[10] + fields[11]
        return max(counted / _TICKS + buried_s, sum(self._seen.values()) / _TICKS)


def is_memory_passed(pids: Iterable[int], most: int) -> bool:
    """True if they hold more bytes than that; shared memory is only split near the limit."""
    pids = tuple(pids)
    if sum(map(_count_held, pids)) <= most:
        return False
    return sum(map(_count_share, pids)) > most


def count_removed_bytes(pid: int, folder: Path, most: int) -> int:
    """The bytes that a process holds in files of the folder which have no name any more.

    A file that is only mapped cannot be looked at, so it counts as `most`. PermissionError when
    the process hides what it has open.
    """
    sizes: dict[int, int] = {}
    try:
        opened = list(Path("/proc", str(pid), "fd").iterdir())
    except OSError:
        # Only root may read a process that is ending: that one has no memory any more.
        if "\nVmSize:" in _read_proc(pid, "status"):
            raise
        return 0
    for each in opened:
        with suppress(OSError):  # it was closed meanwhile
            state = each.stat()
            if stat.S_ISREG(state.st_mode) and state.st_nlink == 0:
                sizes[state.st_ino] = state.st_blocks * 512
    for line in _read_proc(pid, "maps").split("\n"):
        _, _, rest = line.partition(f" {folder}/")
        if rest.endswith(" (deleted)"):
            sizes.setdefault(int(line.split()[4]), most)
    return sum(sizes.values())


def _count_held(pid: int) -> int:
    # Pages of files are left out: the kernel drops them when it needs the memory.
    return _sum_lines(_read_proc(pid, "status"), "RssAnon:", "RssShmem:")


def _count_share(pid: int) -> int:
    details = _read_proc(pid, "smaps_rollup")
    return _sum_lines(details, "Pss_Anon:", "Pss_Shmem:") if details else _count_held(pid)


def _sum_lines(text: str, *names: str) -> int:
    """The sum of the named `Name:  123 kB` lines.

    A process names itself, with any sign but a newline: what only looks like such a line is none.
    """
    found = (_LINE.fullmatch(line) for line in text.split("\n"))
    return sum(int(each[2]) * 1024 for each in found if each and each[1] in names)


def _read_proc(pid: int, what: str) -> str:
    """Empty when the process is gone, or hides."""
    try:
        # As bytes: reading text would take other signs for ends of lines too.
        return Path("/proc", str(pid), what).read_bytes().decode(errors="replace")
    except OSError:
        return ""
