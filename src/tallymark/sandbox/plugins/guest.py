"""The guest: a warm Python inside the sandbox that forks a child for each call of one plugin.

It never runs the plugin's code. It has loaded what plugins like to import, so that a child starts
in a millisecond, and it gives each child an empty scratch folder.
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

from tallymark.sandbox import kernel, landlock
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.plugins import child
from tallymark.sandbox.plugins.codec import decode, encode

PROGRESS_BYTES = 8
SCRATCH_FILES = 1024


def main() -> None:
    """Serve the host over the socket whose descriptor is the first argument, until it hangs up."""
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = decode(control.recv(2**20))
    os.environ.clear()
    os.chdir("/")
    _load(setup)
    scratch = _Scratch(setup)
    me = os.pidfd_open(os.getpid())
    socket.send_fds(control, [b"ready"], [me])
    os.close(me)
    while True:
        asked, given, _, _ = socket.recv_fds(control, 16, 2)
        if not asked:
            return
        status = _call(control, given, scratch.walls())
        if status is None:
            return
        control.send(encode((status, scratch.renewed())))


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


def _call(control: socket.socket, given: list[int], walls: child.Walls) -> int | None:
    """Fork a child for one call and wait for its end; None when the host has gone meanwhile."""
    link, *more = given
    progress = _progress(more[0]) if more else None
    pid = os.fork()
    if pid == 0:
        child.run(link, progress, walls)
    for descriptor in given:
        os.close(descriptor)
    ended = os.pidfd_open(pid)
    try:
        with suppress(OSError):  # the host may be gone; the wait below finds out
            socket.send_fds(control, [b"begun"], [ended])
        gone = _waited(control, ended)
    finally:
        os.close(ended)
    if gone:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if walls.filter is None:
        # Nothing kept it from starting others; those that stayed with it end with it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return None if gone else status


def _progress(descriptor: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, PROGRESS_BYTES)).cast("Q")


def _waited(control: socket.socket, ended: int) -> bool:
    """Wait for the child; true when the host hung up first."""
    both = select.poll()
    both.register(ended, select.POLLIN)
    both.register(control, select.POLLIN)
    ready = {descriptor for descriptor, _ in both.poll()}
    return ended not in ready


class _Scratch:
    """Where a child may write. Each finds it empty, whatever the one before has done there."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._path: str = setup["scratch"]
        self._readable = [Path(path) for path in setup["readable"]]
        self._filter: bytes | None = setup["filter"]
        self._mounts: bool = setup["mounts"]
        self._limits = Limits(**setup["limits"])
        self._rules: int | None = None
        if self._mounts:
            kernel.own_mounts()
        self._begin()

    def walls(self) -> child.Walls:
        return child.Walls(self._limits, self._path, self._rules, self._filter)

    def renewed(self) -> bool:
        """Make it as good as new; false when only a new guest can do that."""
        if self._state() == self._new:
            return True
        if not self._mounts:
            return False
        kernel.unmount(self._path)
        self._begin()
        return True

    def _begin(self) -> None:
        if self._mounts:
            kernel.mount_memory(self._path, size_mb=self._limits.disk_mb, files=SCRATCH_FILES)
        if self._filter is not None:
            if self._rules is not None:
                os.close(self._rules)
            writable = [Path(self._path), Path(os.devnull)]
            self._rules = landlock.ruleset(self._readable, writable)
        self._new = self._state()

    def _state(self) -> tuple[int, int, bool]:
        """What changes when anything is made or removed in it: times and entries."""
        found = Path(self._path).stat()
        with os.scandir(self._path) as entries:
            return found.st_mtime_ns, found.st_ctime_ns, any(entries)
