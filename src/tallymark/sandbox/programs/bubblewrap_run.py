"""A run in bubblewrap: namespaces of its own, and the launcher as the first process in them."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from contextlib import suppress

from tallymark.errors import WorkFailed
from tallymark.sandbox import bubblewrap, interpreter, kernel_calls
from tallymark.sandbox.programs import program_view
from tallymark.sandbox.programs.launcher_process import (
    Pipes,
    ProgramEnding,
    RunningLauncher,
    converse,
    read_report,
    start_launcher,
)
from tallymark.sandbox.programs.program_task import ProgramTask

_DYING_S = 10.0
_PAUSES_S = (0.1, 1.0)
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit codes when bubblewrap, or the first process in it, is killed."""


def run_in_bubblewrap(task: ProgramTask, entrance: int | None) -> ProgramEnding:
    """Run one program; when this returns or raises, nothing of it is left.

    `entrance` is a descriptor by which the program enters its memory group, if it has one. A
    sandbox that is killed from outside before the program begins is set up again after a pause.
    """
    for pause in _PAUSES_S:
        with suppress(_KilledEarly):
            return _run_once(task, entrance)
        time.sleep(pause)
    return _run_once(task, entrance)


class _KilledEarly(WorkFailed):
    """Nothing of the program ran."""


def _run_once(task: ProgramTask, entrance: int | None) -> ProgramEnding:
    order = task.order(
        home=interpreter.HOME,
        folder=bubblewrap.SCRATCH,
        uid=program_view.choose_uid(),
        walls=True,
        alone=True,
        entrance=entrance,
    )
    with Pipes() as pipes:
        launched, info = _launch(task, pipes, entrance)
        inside = _FirstProcess(launched, info, pipes)
        try:
            inside.find()
            orders = order + b"".join(task.files.values())
            talk = converse(pipes, launched, task, orders, kill=inside.kill)
        finally:
            inside.end()
        killed = not talk.was_killed and launched.process.returncode in _KILLED
        try:
            last, data = read_report(talk, launched.process.returncode)
        except WorkFailed as error:
            if killed:
                raise _KilledEarly(error.problems) from None
            raise
        if not last and killed:
            # The launcher is the first process in there, which nothing in there can kill.
            raise WorkFailed(
                "the sandbox around the program was killed from outside",
                hint="see whether the machine has run out of memory",
            )
        kept = {}
        for name, size in last.get("kept", ()):
            kept[name], data = data[:size], data[size:]
        return ProgramEnding(
            code=last.get("code", -signal.SIGKILL),
            stopped=talk.stopped or last.get("stopped"),
            stdout=talk.said_on(talk.stdout),
            stderr=talk.said_on(talk.stderr),
            kept=kept,
            refused=last.get("refused", {}),
            wall_s=last.get("wall_s", talk.wall()),
        )


def _launch(task: ProgramTask, pipes: Pipes, entrance: int | None) -> tuple[RunningLauncher, int]:
    """Bubblewrap on its way, and where it will say who runs inside."""
    settings, to_settings = pipes.pipe()
    inside = interpreter.sandbox_path()
    text = program_view.make_python_settings(inside, packages=task.packages)
    # Short enough for the pipe to hold until bubblewrap reads it.
    os.write(to_settings, text.encode())
    pipes.close(to_settings)
    from_info, info = pipes.pipe()
    options = ["--info-fd", str(info), "--perms", "0644"]
    options += ["--ro-bind-data", str(settings), str(interpreter.HOME / "pyvenv.cfg")]
    words = program_view.make_command(
        scratch_bytes=task.scratch_bytes, packages=task.packages, settings=options
    )
    launched = start_launcher(
        pipes,
        "supervise",
        code=program_view.LAUNCHER_CODE,
        python=inside,
        before=words,
        also=(settings, info),
        lent=entrance,
    )
    return launched, from_info


class _FirstProcess:
    """The first process of the namespace: the kernel ends all others with it."""

    def __init__(self, launched: RunningLauncher, info: int, pipes: Pipes) -> None:
        self._bwrap = launched.process
        self._info = info
        self._pipes = pipes
        self._pidfd: int | None = None

    def find(self) -> None:
        """Wait until bubblewrap has reported its pid, or has failed."""
        output = b""
        while _can_read(self._info, _DYING_S):
            piece = os.read(self._info, 4096)
            output += piece
            if found := re.search(rb'"child-pid": (\d+)\D', output):
                with suppress(ProcessLookupError):
                    self._pidfd = self._pipes.adopt(os.pidfd_open(int(found[1])))
            if found or not piece:
                return

    def kill(self) -> None:
        """Kill it, and with it all processes inside."""
        if self._pidfd is None:
            self._bwrap.kill()
        else:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def end(self) -> None:
        """End everything inside, and wait for the end."""
        try:
            if self._pidfd is None and self._bwrap.poll() is None:
                # Interrupted early: bubblewrap's child must be found before its parent is killed.
                self.find()
        finally:
            self.kill()
        if self._pidfd is not None:
            _can_read(self._pidfd, _DYING_S)
        try:
            # It has waited for the first process when it ends on its own; killed, it might not.
            self._bwrap.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            self._bwrap.kill()
            self._bwrap.wait()
        if self._pidfd is not None:
            kernel_calls.bury_process(self._pidfd)


def _can_read(descriptor: int, seconds: float) -> bool:
    """Wait by `poll`: `select` refuses descriptors from 1,024 on, and a busy server has more."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
