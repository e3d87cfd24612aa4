"""What processes use, by /proc. Only the standard library: the launcher asks inside too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LINE = re.compile(r"(\w+:)\s+([0-9]+) kB")


def sum_cpu_s(pids: Iterable[int]) -> float:
    """Processor time of the living, and of the children that they waited for."""
    total = 0
    for pid in pids:
        # The name in parentheses may hold anything, more parentheses too.
        fields = _read_proc(pid, "stat").rpartition(")")[2].split()
        total += sum(int(each) for each in fields[11:15])
    return total / _TICKS


def is_memory_passed(pids: Iterable[int], most: int) -> bool:
    """Whether they hold more bytes than that; what they share is told apart only near the limit."""
    pids = tuple(pids)
    if sum(map(_count_held, pids)) <= most:
        return False
    return sum(map(_count_share, pids)) > most


def _count_held(pid: int) -> int:
    # Pages of files are left out: the kernel drops them when it needs the room.
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
