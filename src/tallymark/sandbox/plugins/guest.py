"""The guest: a warm Python inside the sandbox that forks a child for each call of a plugin.

It never reads or runs the plugin's code, and imports nothing because of it. It has imported what
most plugins use, is confined itself, forks and confines children ahead of their calls, and gives
each an empty folder to write to.
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import posix
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tallymark.sandbox import kernel_calls, landlock, rlimits, scratch_folder, seccomp
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.plugins import guest_child
from tallymark.sandbox.plugins.plain_data import decode, encode

SCRATCH_FILES = 1024
_CHILDREN = 2
"""One is at work, the other ready for the next call."""


def main() -> None:
    """Serve the host over the socket whose descriptor is the first argument, until it hangs up."""
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = decode(control.recv(2**20))
    os.environ.clear()
    os.chdir("/")
    _load(setup)
    _confine(setup)
    me = os.pidfd_open(os.getpid())
    # Until here the host reads error messages; from here on all output is discarded.
    for standard in (1, 2):
        os.dup2(0, standard)
    socket.send_fds(control, [b"here"], [me])
    os.close(me)
    _serve(control, _Nursery(setup))


def _load(setup: dict[str, Any]) -> None:
    """Import modules ahead, and leave only the standard library to import.

    The plugin's root is not on the path: no later import of this process can load its code.
    """
    for name in setup["modules"]:
        with suppress(Exception):  # a module that this Python was built without
            importlib.import_module(name)
    for name in setup["unload"]:
        sys.modules.pop(name, None)
    sys.path[:] = [path for path in sys.path if path not in setup["packages"]]
    sys.argv[:] = [""]
    os.register_at_fork = posix.register_at_fork  # which was away: see `guest_handle`
    gc.collect()
    gc.freeze()


def _confine(setup: dict[str, Any]) -> None:
    """Confine the guest and all its children."""
    limits = Limits(**setup["limits"])
    # Mounting takes a capability, so it comes before they are all given up.
    if setup["mounts"]:
        kernel_calls.unshare_mounts()
        _cover_compiled(setup["packages"])
        kernel_calls.mount_memory(setup["scratch"], size_mb=limits.disk_mb, files=SCRATCH_FILES)
    if setup["filter"] is not None and not setup["mounts"]:
        kernel_calls.drop_capabilities()  # in bubblewrap the children do: see `Walls.fork`
    # A host that runs with priority must not lend it to a plugin that loops.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    kernel_calls.hide_memory()
    kernel_calls.adopt_orphans()
    kernel_calls.forbid_new_privileges()
    rlimits.apply(limits)
    if setup["filter"] is not None:
        landlock.restrict(
            read=[Path(path) for path in setup["readable"]],
            write=[Path(setup["scratch"]), Path(os.devnull)],
        )
        # Last, because it takes away the calls by which the other walls were put up.
        seccomp.load(setup["filter"])


def _cover_compiled(packages: list[str]) -> None:
    """Hide compiled files: they contain paths of the host."""
    for home in packages:
        for folder, _, _ in os.walk(home):
            if folder.endswith("/__pycache__"):
                kernel_calls.mount_memory(folder, size_mb=1, files=0)


def _serve(control: socket.socket, nursery: _Nursery) -> None:
    """Hand out one child after another, and report how each ended and at which attempt."""
    waiting = select.poll()
    waiting.register(control, 0)
    alive: dict[int, _Child] = {}
    while True:
        while len(alive) < _CHILDREN:
            forked = nursery.fork()
            alive[forked.pidfd] = forked
            waiting.register(forked.pidfd, select.POLLIN)
            forked.hand_over(control)
        ready = {descriptor for descriptor, _ in waiting.poll()}
        ended = [alive.pop(pidfd) for pidfd in list(alive) if pidfd in ready]
        if control.fileno() in ready:
            ended += alive.values()
        for each in ended:
            waiting.unregister(each.pidfd)
            with suppress(OSError):  # the host may have gone meanwhile
                control.send(encode(each.end()))
        if control.fileno() in ready:
            return


class _Nursery:
    """The parts that children share."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self._root: str = setup["root"]
        self._scratch: str = setup["scratch"]
        self._open_files = Limits(**setup["limits"]).open_files
        self._apart: bool = setup["apart"]
        self._on_disk = not setup["mounts"]
        self._rules = self._filter = None
        if setup["child_filter"] is not None:
            self._filter = seccomp.Filter(setup["child_filter"])
            self._rules = landlock.LandlockRules()
            self._rules.allow(read=[Path(path) for path in setup["readable"]])
            self._rules.allow(write=[Path(os.devnull)])

    def fork(self) -> _Child:
        """A confined child with a folder of its own that waits for its call."""
        # A name that cannot be guessed, in a folder that no child can list.
        folder = f"{self._scratch}/{os.urandom(8).hex()}"
        os.mkdir(folder, 0o700)  # noqa: PTH102 (at every call)
        rules = None if self._rules is None else self._rules.build(write=folder)
        enforce = None if rules is None else landlock.prepare_enforcing(rules)
        walls = guest_child.Walls(
            self._root, folder, enforce, self._filter, self._open_files, on_disk=self._on_disk
        )
        forked = _Child(walls, apart=self._apart)
        if rules is not None:
            os.close(rules)
        return forked


class _Child:
    """A forked child."""

    def __init__(self, walls: guest_child.Walls, *, apart: bool) -> None:
        self._walls = walls
        # A plugin can read what its guest's frames hold: nothing there counts calls.
        self._name = int.from_bytes(os.urandom(6), sys.byteorder)
        self._progress = mmap.mmap(-1, mmap.PAGESIZE)
        self._link, theirs = socket.socketpair()
        pid = walls.fork()
        if pid == 0:
            guest_child.run_child(theirs.fileno(), self._progress, walls, apart=apart)
        theirs.close()
        self.pidfd = os.pidfd_open(pid)
        self._group = pid if walls.on_disk else None
        """The process group, where the child is not the first process of a namespace."""

    def hand_over(self, control: socket.socket) -> None:
        """Give the host the child's pidfd and the channel to it."""
        # The host may have gone: the next wait finds out. Any other failure ends the guest, which
        # would otherwise fork children for ever without a host.
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(control, [encode((self._name,))], [self.pidfd, self._link.fileno()])
        self._link.close()

    def end(self) -> tuple[int, int, int]:
        """End it and remove its files; return its number, exit code and attempt."""
        # Before the wait: until then its number cannot be reused. It has no group yet when
        # it was ended at once; what a plugin starts where nothing forbids it may have left it.
        with suppress(ProcessLookupError, PermissionError):
            if self._group is not None:
                os.killpg(self._group, signal.SIGKILL)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        ended = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        assert ended is not None  # noqa: S101 (as without WNOHANG)
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        os.close(self.pidfd)
        with suppress(ChildProcessError):
            while self._group is not None:
                os.waitpid(-self._group, 0)  # the process of its last attempt
        try:
            os.rmdir(self._walls.scratch)  # noqa: PTH106 (at every call)
        except OSError:
            scratch_folder.remove_folder(Path(self._walls.scratch))
        with self._progress as progress:
            return self._name, code, guest_child.read_attempt(progress)
