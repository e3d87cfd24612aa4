"""The host's side of one guest: start it, take its forked children, end it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tallymark.errors import WorkFailed
from tallymark.sandbox import bubblewrap, interpreter, kernel_calls, scratch_folder, seccomp
from tallymark.sandbox.plugins import guest_view
from tallymark.sandbox.plugins.plain_data import decode, encode

if TYPE_CHECKING:
    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.plugins.plugin_files import CompiledFiles, PluginCode

_START_S = 60.0
_HEAR_S = 30.0
_ENDING_S = 10.0
"""A guest that is hung up on ends its children and waits for them, as bubblewrap does for a guest
that was killed: killed first, either would leave the dead to the first process of the machine."""
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}
"""So that sets have one order, and a plugin that goes through one gives one score."""
_PROGRAM = """
import os, sys
os.register_at_fork = lambda **_: None
sys.path += sys.argv[2:]
from tallymark.sandbox.plugins.guest import main
main()
"""
"""Modules register functions to run after a fork; calling them in each child (of a process with one
thread) costs a tenth of a call. All but `random` do it for threads.
"""


class GuestGone(Exception):
    """The guest has ended, or does not do what a guest does; it must be replaced."""


class ChildHandle:
    """A child of a guest that waits for a call, and the channel to it."""

    def __init__(self, number: int, pidfd: int, link: socket.socket) -> None:
        self.number, self.pidfd, self.link = number, pidfd, link

    def list_pids(self) -> list[int]:
        """Its process, and the one that it has forked for an attempt."""
        info = Path(f"/proc/self/fdinfo/{self.pidfd}").read_text(encoding="ascii")
        pid = next(int(line[4:]) for line in info.splitlines() if line.startswith("Pid:"))
        try:
            forked = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
        except OSError:  # it has ended
            return []
        return [pid, *map(int, forked.split())]

    def kill(self) -> None:
        """Kill it, after its answer or its deadline."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Kill it, and close its descriptors."""
        self.kill()
        os.close(self.pidfd)
        self.link.close()


class GuestHandle:
    """One warm guest. It serves one call at a time; its owner sees to that."""

    def __init__(self, code: PluginCode, backend: str, limits: Limits, *, apart: bool) -> None:
        if not code.root.is_dir():
            raise WorkFailed(f"the folder of the plugin {code.name} is gone: {code.root}")
        self.calls = 0
        self.used_at = time.monotonic()
        walled = backend == "bubblewrap"
        in_bubblewrap, in_place = guest_view.plan_view_in_bubblewrap, guest_view.plan_view_in_place
        self.view = in_bubblewrap(code) if walled else in_place(code)
        self.folder = None if walled else Path(tempfile.mkdtemp(prefix="tally-"))
        self._pidfd: int | None = None
        self._ready: deque[ChildHandle] = deque()
        self._ended: dict[int, tuple[int, int]] = {}
        self.compiled: CompiledFiles | None = None
        # Each send is one message, and descriptors travel with theirs.
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with tempfile.TemporaryFile() as said:
                self._process = self._start(code, backend, theirs, said)
                setup = self._make_setup(code, backend, limits) | {"apart": apart}
                self._greet(setup, said)
        except BaseException:
            self.close()
            raise

    def _start(
        self, code: PluginCode, backend: str, theirs: socket.socket, said: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        # Nothing of site-packages, of the user's or of the folder it starts in can be imported.
        python = [str(self.view.python), "-s", "-S", "-P", "-B", "-c", _PROGRAM]
        before: list[str] = []
        if backend == "bubblewrap":
            # Not tied to the thread that starts it: it ends when our end of the socket closes.
            before = bubblewrap.command(
                binds=guest_view.list_binds(code),
                hidden=interpreter.hidden_folders(),
                scratch_mb=None,
                may_mount=True,
                die_with_parent=False,
                environment=_ENVIRONMENT | interpreter.variables(),
            )
        with theirs:
            return subprocess.Popen(  # noqa: S603 (our own program, in the sandbox)
                [*before, *python, str(theirs.fileno()), *map(str, self.view.packages)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                cwd="/",
            )

    def _make_setup(self, code: PluginCode, backend: str, limits: Limits) -> dict[str, Any]:
        """The setup message for a guest."""
        walls = backend != "insecure-local"
        return {
            "root": str(self.view.root),
            "packages": [str(path) for path in self.view.packages],
            "modules": guest_view.MODULES_AHEAD,
            "unload": guest_view.find_shadowed_modules(code),
            "scratch": str(self.folder or bubblewrap.SCRATCH),
            "mounts": self.folder is None,
            "readable": [str(path) for path in self.view.readable],
            "filter": seccomp.guest_program() if walls else None,
            "child_filter": seccomp.child_program() if walls else None,
            "limits": asdict(limits),
        }

    def _greet(self, setup: dict[str, Any], said: IO[bytes]) -> None:
        self.control.settimeout(_START_S)
        try:
            self.control.send(encode(setup))
            _, (self._pidfd,), _, _ = socket.recv_fds(self.control, 16, 1)
        except (OSError, ValueError) as error:
            said.seek(0)
            words = said.read(2000).decode(errors="replace").strip().splitlines()
            why = words[-1] if words else str(error) or "it ended at once"
            hint = "`tally doctor` shows what this machine lacks"
            raise WorkFailed(f"the sandbox could not be started: {why}", hint=hint) from None

    def take(self) -> ChildHandle:
        """The next child, locked in and waiting."""
        gone = select.poll()
        gone.register(self.control, 0)
        if self._pidfd is not None:
            # A child that was just forked may hold the other end of a dead guest's socket.
            gone.register(self._pidfd, select.POLLIN)
        if gone.poll(0):
            raise GuestGone
        while not self._ready:
            self._hear()
        self._ended.clear()
        self.calls += 1
        return self._ready.popleft()

    def settle(self, number: int) -> tuple[int, int]:
        """Wait for the end of this child; return its exit code and attempt."""
        while number not in self._ended:
            self._hear()
        return self._ended[number]

    def _hear(self) -> None:
        """Receive the guest's next message: a child is ready, or has ended."""
        self.control.settimeout(_HEAR_S)
        try:
            message, found, _, _ = socket.recv_fds(self.control, 64, 2)
            number, *ended = decode(message)
        except (OSError, ValueError):
            raise GuestGone from None
        if found:
            self._ready.append(ChildHandle(number, found[0], socket.socket(fileno=found[1])))
        else:
            code, at = ended
            self._ended[number] = code, at

    def _end_process(self, process: subprocess.Popen[bytes]) -> None:
        """End the process that we started: bubblewrap, or the guest itself."""
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        kernel_calls.bury_group(process.pid)

    def close(self) -> None:
        """End it, with all that runs in it."""
        self.control.close()
        for child in self._ready:
            child.close()
        if self._pidfd is not None and self.folder is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        process = getattr(self, "_process", None)
        if process is not None:
            self._end_process(process)
        if self._pidfd is not None:
            kernel_calls.bury_process(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self.folder is not None and self.folder.exists():
            scratch_folder.remove_folder(self.folder)
