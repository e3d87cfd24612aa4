"""The guest: a warm Python inside the sandbox that forks a child for each call of a plugin.

It never runs the plugin's code. It has loaded what the plugin will import from the library, gives
each child an empty scratch folder, and keeps children forked and locked in ahead of their calls.
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tallymark.sandbox import kernel, landlock, rlimits
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.plugins import child
from tallymark.sandbox.plugins.codec import decode, encode

SCRATCH_FILES = 1024


def main() -> None:
    """Serve the host over the socket whose descriptor is the first argument, until it hangs up."""
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = decode(control.recv(2**20))
    os.environ.clear()
    _load(setup)
    limits = Limits(**setup["limits"])
    scratch = _Scratch(setup, limits)
    kernel.hide_memory()
    kernel.forbid_new_privileges()
    rlimits.apply(limits)
    for standard in (1, 2):
        os.dup2(0, standard)
    me = os.pidfd_open(os.getpid())
    socket.send_fds(control, [b"here"], [me])
    os.close(me)
    _serve(control, scratch)


def _load(setup: dict[str, Any]) -> None:
    """Import ahead what is trusted, and leave only the plugin's root and the library to import."""
    for name in setup["modules"]:
        with suppress(Exception):  # a module that this Python was built without
            importlib.import_module(name)
    for name in setup["unload"]:
        sys.modules.pop(name, None)
    if (tempfile := sys.modules.get("tempfile")) is not None:
        vars(tempfile)["tempdir"] = setup["scratch"]
    sys.path[:] = [setup["root"], *setup["library"]]
    sys.argv[:] = [""]
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket, scratch: _Scratch) -> None:
    """Hand out one child after another: the next is ready while one is at work.

    With each goes how the one before ended, and at which attempt.
    """
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    progress = memoryview(shared).cast("Q")
    at_work = _Child(scratch.walls, progress)
    told = (0, 0)
    while True:
        at_work.hand_over(control, encode(told))
        following = _Child(scratch.walls, progress)
        if not at_work.outlived_by(control):
            at_work.end()
            following.end()
            return
        told = at_work.end(), progress[0]
        shared[:] = bytes(mmap.PAGESIZE)  # nothing that a plugin wrote there reaches another
        if scratch.touched():
            following.end()
            if not scratch.renew():
                control.send(encode(told))
                return
            following = _Child(scratch.walls, progress)
        at_work = following


class _Child:
    """A forked child, locked in and waiting for its call."""

    def __init__(self, walls: child.Walls, progress: memoryview) -> None:
        self._link, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            child.run(theirs.fileno(), progress, walls)
        theirs.close()
        self._pidfd = os.pidfd_open(self._pid)
        self._alone = walls.filter is None

    def hand_over(self, control: socket.socket, told: bytes) -> None:
        """Give the host the child's pidfd and the channel to it."""
        with suppress(OSError):  # the host may have gone: the next wait finds out
            socket.send_fds(control, [told], [self._pidfd, self._link.fileno()])
        self._link.close()

    def outlived_by(self, control: socket.socket) -> bool:
        """Wait for the child's end; false when the host hung up before."""
        both = select.poll()
        both.register(self._pidfd, select.POLLIN)
        both.register(control, 0)
        return self._pidfd in {descriptor for descriptor, _ in both.poll()}

    def end(self) -> int:
        """See to it that it is dead; how it ended."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        os.close(self._pidfd)
        self._link.close()
        if self._alone:
            # Nothing kept it from starting others; those that stayed with it end with it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        return status


class _Scratch:
    """Where a child may write. Each finds it empty, whatever the one before has done there."""

    walls: child.Walls

    def __init__(self, setup: dict[str, Any], limits: Limits) -> None:
        self._path = Path(setup["scratch"])
        self._size_mb = limits.disk_mb
        self._readable = [Path(path) for path in setup["readable"]]
        self._filter: bytes | None = setup["filter"]
        self._mounts: bool = setup["mounts"]
        if self._mounts:
            kernel.own_mounts()
        self._begin()

    def touched(self) -> bool:
        """Whether anything was made in it, even if it is gone again."""
        return self._state() != self._new

    def renew(self) -> bool:
        """Make it as good as new; false when only a new guest can do that."""
        if self._mounts:
            os.chdir("/")
            kernel.unmount(str(self._path))
            if self.walls.rules is not None:
                os.close(self.walls.rules)
            self._begin()
        return self._mounts

    def _begin(self) -> None:
        if self._mounts:
            kernel.mount_memory(str(self._path), size_mb=self._size_mb, files=SCRATCH_FILES)
        rules = None
        if self._filter is not None:
            rules = landlock.ruleset(self._readable, [self._path, Path(os.devnull)])
        self.walls = child.Walls(rules, self._filter)
        os.chdir(self._path)
        self._new = self._state()

    def _state(self) -> tuple[int, int, bool]:
        """What changes when anything is made or removed in it: times and entries."""
        found = self._path.stat()
        with os.scandir(self._path) as entries:
            return found.st_mtime_ns, found.st_ctime_ns, any(entries)
