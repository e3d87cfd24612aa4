"""Which processes this one has started and still has, by the kernel's own book."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.golden.zygote import RUNNING


def descendants(pid: int | None = None) -> set[int]:
    """Children, their children, and so on; zombies too."""
    found: set[int] = set()
    while more := children({os.getpid() if pid is None else pid, *found}) - found - RUNNING:
        found |= more
    return found


def children(parents: set[int]) -> set[int]:
    """Of any of these processes."""
    found: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # Not by the children of its threads: one that is just ending has them no more, and the
        # others not yet.
        with suppress(OSError):  # it has ended meanwhile
            _, parent, *_ = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            if int(parent) in parents:
                found.add(int(stat.parent.name))
    return found


def guests(backend: str, pid: int | None = None) -> set[int]:
    """The warm guests that a process has; bubblewrap stands between the two."""
    own = children({os.getpid() if pid is None else pid}) - RUNNING
    return children(own) if backend == "bubblewrap" else own


def await_work(backend: str, pid: int | None = None) -> None:
    """Wait until a child of a guest has computed for a while: its plugin is in a loop."""
    until = time.monotonic() + 30
    while not any(map(has_computed, children(guests(backend, pid)))):
        assert time.monotonic() < until, "no child is at work"
        os.sched_yield()


def has_computed(pid: int) -> bool:
    """Far more than getting ready takes."""
    with suppress(OSError):
        nanoseconds = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]
        return int(nanoseconds) > 60_000_000
    return False


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def memory_kb(pid: int) -> int:
    """What a process holds in memory of its own."""
    status = Path("/proc", str(pid), "status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line)
