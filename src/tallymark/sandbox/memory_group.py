"""Cgroup v2: one memory limit for all processes of a program together.

https://docs.kernel.org/admin-guide/cgroup-v2.html. Available where the machine provides a group in
which this process can make others: as root, or delegated, as systemd does for a user's services.
Elsewhere the use of memory is polled, and a program may use more in between. Imports only the
standard library: its trial runs alone.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

_MEMBERS, _CHILDREN_HAVE, _LIMIT = "cgroup.procs", "cgroup.subtree_control", "memory.max"
_EMPTYING_S = 5.0


class MemoryGroup:
    """A group for one program; a process that writes 0 to `entrance` enters it with children."""

    def __init__(self, parent: Path, most: int) -> None:
        self._folder = parent / f"tally-{secrets.token_hex(8)}"
        self._folder.mkdir()
        try:
            (self._folder / _LIMIT).write_text(str(most), encoding="ascii")
            # Half a program is of no use; and where there is no swap, there is no such file.
            (self._folder / "memory.oom.group").write_text("1", encoding="ascii")
            with suppress(FileNotFoundError):
                self._write_existing("memory.swap.max", "0")
            self.entrance = os.open(self._folder / _MEMBERS, os.O_WRONLY | os.O_CLOEXEC)
        except BaseException:
            self._folder.rmdir()
            raise

    def is_limit_passed(self) -> bool:
        """True if the kernel ended the program because of its memory limit."""
        counts = self._read_events()
        return counts.get("oom_kill", 0) > 0 and counts.get("oom", 1) > 0

    def is_machine_full(self) -> bool:
        """True if the kernel ended it within the limit: the machine or a group above had no
        more.
        """
        counts = self._read_events()
        return counts.get("oom_kill", 0) > 0 and counts.get("oom", 1) == 0

    def _read_events(self) -> dict[str, int]:
        """Counters of the kernel; `oom` counts how often this group reached its own limit."""
        lines = (self._folder / "memory.events").read_text(encoding="ascii").splitlines()
        return {name: int(count) for name, count in map(str.split, lines)}

    def close(self) -> None:
        """Remove it once all processes in it are killed: they take a moment to leave."""
        os.close(self.entrance)
        with suppress(OSError):  # an older kernel has no such file
            self._write_existing("cgroup.kill", "1")
        until = time.monotonic() + _EMPTYING_S
        while True:
            try:
                return self._folder.rmdir()
            except OSError:
                if time.monotonic() > until:
                    return None
                time.sleep(0.001)

    def _write_existing(self, name: str, text: str) -> None:
        with (self._folder / name).open("r+", encoding="ascii") as file:
            file.write(text)


class NoGroup(Exception):
    """No group can be made here, for the reason in the text."""


def find_parent(proc: Path = Path("/proc/self")) -> Path:
    """The group to make others in: our own, or the one above it if ours may have no children."""
    own = _find_own(proc)
    whys = []
    for folder in dict.fromkeys((own, own.parent)):
        try:
            _require_memory(folder)
        except (OSError, NoGroup) as error:
            whys.append(str(error))
        else:
            return folder
    raise NoGroup(whys[0])


def try_group(parent: Path) -> None:
    """OSError unless a process can really be put into a group with a limit."""
    group = MemoryGroup(parent, 2**26)
    try:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.write(group.entrance, b"0")
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if status:
            raise PermissionError("no process can be moved to a new control group")
    finally:
        group.close()


def _find_own(proc: Path) -> Path:
    """The folder of our group in the one hierarchy of version 2."""
    lines = (proc / "cgroup").read_text(encoding="utf-8").splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        root, place = left.split()[3:5]
        if right.startswith("cgroup2 ") and own is not None and Path(own).is_relative_to(root):
            return Path(place, Path(own).relative_to(root))
    raise NoGroup("there is no cgroup of version 2 here")


def _require_memory(folder: Path) -> None:
    """Groups in this one have a limit of memory, or NoGroup or OSError."""
    if not os.access(folder, os.W_OK) or not os.access(folder / _MEMBERS, os.W_OK):
        raise NoGroup("the cgroup of this process is not delegated to this user")
    if "memory" not in (folder / "cgroup.controllers").read_text(encoding="ascii").split():
        raise NoGroup("memory is not among the controllers of the cgroup of this process")
    switch = folder / _CHILDREN_HAVE
    if "memory" not in switch.read_text(encoding="ascii").split():
        # Refused while a process is in it, ours for one; then the group above may do.
        switch.write_text("+memory", encoding="ascii")
