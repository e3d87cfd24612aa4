"""The launcher as a process of the host: its start, and its pipes and the program's until the end.

Everything is non-blocking and in one loop, so that no amount of input or output can lock it.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

from tallymark.errors import WorkFailed
from tallymark.sandbox import interpreter
from tallymark.sandbox.programs.program_task import ProgramTask

if TYPE_CHECKING:
    from collections.abc import Callable

_LAUNCHER = "tallymark.sandbox.programs.launcher"
_MOST_WORDS = 1 << 20
"""Limit of the launcher's messages, besides the files that it returns."""


@dataclass(frozen=True, slots=True)
class RunningLauncher:
    """A launcher that has been started, and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    orders: int
    report: int


def start_launcher(  # noqa: PLR0913 (each says one thing about the start)
    pipes: Pipes,
    how: str,
    *,
    code: Path = interpreter.OUR_CODE,
    python: Path | None = None,
    before: Sequence[str] = (),
    also: Sequence[int] = (),
    lent: int | None = None,
) -> RunningLauncher:
    """Start it behind the words of `before`, with the descriptors `also`, which are then closed.

    A descriptor that is `lent` stays open here too.
    """
    kept = () if lent is None else (lent,)
    stdin, to_stdin = pipes.pipe()
    from_stdout, stdout = pipes.pipe()
    from_stderr, stderr = pipes.pipe()
    orders, to_orders = pipes.pipe()
    from_report, report = pipes.pipe()
    arguments = (how, str(orders), str(report))
    launcher = interpreter.module_command(_LAUNCHER, *arguments, code=code, python=python)
    try:
        process = subprocess.Popen(  # noqa: S603 (our own words)
            [*before, *launcher],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(orders, report, *also, *kept),
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise WorkFailed(f"the sandbox cannot be started: {error}") from None
    for each in (stdin, stdout, stderr, orders, report, *also):
        pipes.close(each)
    return RunningLauncher(process, to_stdin, from_stdout, from_stderr, to_orders, from_report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnding:
    """How a run ended, as the launcher and the host saw it."""

    code: int
    """Negative: the signal that ended it."""
    stopped: PassedLimit | None
    stdout: bytes
    stderr: bytes
    kept: dict[str, bytes]
    refused: dict[str, str]
    wall_s: float


def converse(
    pipes: Pipes,
    launched: RunningLauncher,
    task: ProgramTask,
    orders: bytes,
    *,
    kill: Callable[[], None],
    look: Callable[[], PassedLimit | None] | None = None,
) -> PipeServer:
    """Serve the pipes of launcher and program until the end."""
    talk = PipeServer(
        pipes=pipes,
        ended=pipes.adopt(os.pidfd_open(launched.process.pid)),
        feeds={launched.orders: orders, launched.stdin: task.stdin},
        stdout=launched.stdout,
        stderr=launched.stderr,
        report=launched.report,
        wall_s=task.limits.wall_s,
        output_bytes=task.output_bytes,
        report_bytes=task.disk_bytes + _MOST_WORDS,
        kill=kill,
        look=look,
        stdin=launched.stdin,
        dialogue=task.dialogue,
    )
    talk.hold()
    return talk


def read_report(talk: PipeServer, code: int | None = None) -> tuple[dict[str, Any], bytes]:
    """The launcher's final message, and the bytes after it; WorkFailed if it never began.

    Empty if it broke down later, as if the program had been killed.
    """
    first, _, rest = talk.said_on(talk.report).partition(b"\n")
    line = json.loads(first) if first else {}
    # A program may flood its output, and be killed with its launcher, before that sends a message.
    if "started" not in line and talk.stopped != "output":
        errors = talk.said_on(talk.stderr).decode(errors="replace").strip()
        silent = "it ended without a message"
        if talk.stopped == "timeout":
            silent = "it did not start in time"
        elif code is not None:
            silent = f"it ended with {f'signal {-code}' if code < 0 else f'code {code}'}"
        why = line.get("failed") or errors or silent
        raise WorkFailed(
            f"the sandbox could not be set up: {why}", hint="run `tally doctor` to see why"
        )
    last, _, data = rest.partition(b"\n")
    ending = json.loads(last) if last else {}
    # Once the program ran, it is the cause of any failure, and may have written the message.
    return ({}, b"") if "failed" in ending else (ending, data)


PassedLimit = Literal["timeout", "cpu", "memory", "output", "disk"]
_PIECE = 1 << 16
_STARTING_S = 30.0
"""Time limit for the start of a sandbox on a machine under load."""
_LOOK_EVERY_S = 0.02
_DRAINING_S = 2.0
"""How long pipes are still read after the end, when an escaped process holds them open."""


class DialogueTurn(NamedTuple):
    """The next input of a program, and the time limit of its answer."""

    told: bytes
    seconds: float


class Dialogue(Protocol):
    """The host's side of a conversation with a running program, by its stdin and stdout."""

    def hear(self, output: bytes) -> DialogueTurn | None:
        """The next turn after this output: None to wait for more; an empty one ends the program."""
        ...


class Pipes:
    """Ends of a child's pipes, both sides, closed together."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in tuple(self._open):
            self.close(each)

    def pipe(self) -> tuple[int, int]:
        """A new pipe: the end to read, the end to write."""
        both = os.pipe()
        self._open.update(both)
        return both

    def adopt(self, descriptor: int) -> int:
        """Close this descriptor with the others."""
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close a descriptor once: by the second time, another thread may have its number."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


@dataclass(kw_only=True)
class PipeServer:
    """One child: its input, its output, and its time limit.

    `report` is the launcher's: its first line means that the program has started, and the clock
    runs from there.
    """

    pipes: Pipes
    ended: int
    """A pidfd: readable when the child has ended."""
    feeds: dict[int, bytes]
    stdout: int
    stderr: int
    report: int
    wall_s: float
    output_bytes: int
    report_bytes: int
    kill: Callable[[], None]
    look: Callable[[], PassedLimit | None] | None
    """Called regularly: returns a limit that was exceeded and that only the host can see."""
    stdin: int | None = None
    """Stays open for the dialogue; `wall_s` is then the time until its first turn."""
    dialogue: Dialogue | None = None

    _said: dict[int, bytearray] = field(default_factory=dict, init=False)
    stopped: PassedLimit | None = field(default=None, init=False)
    was_killed: bool = field(default=False, init=False)
    """Killed by the host: for a limit, or at the end of a dialogue."""
    started: float | None = field(default=None, init=False)
    finished: float = field(default=0.0, init=False)

    def said_on(self, descriptor: int) -> bytes:
        """All output read from a descriptor."""
        return bytes(self._said[descriptor])

    def wall(self) -> float:
        """Seconds from the program's start to its end."""
        return 0.0 if self.started is None else self.finished - self.started

    def hold(self) -> None:
        """Serve the pipes until the child is gone and they are empty."""
        self._said = {each: bytearray() for each in (self.stdout, self.stderr, self.report)}
        self._deadline = time.monotonic() + _STARTING_S
        self._next_look = 0.0
        self._is_over = False
        with selectors.DefaultSelector() as self._selector:
            for feed in self.feeds:
                os.set_blocking(feed, False)
                self._selector.register(feed, selectors.EVENT_WRITE)
            for drain in self._said:
                os.set_blocking(drain, False)
                self._selector.register(drain, selectors.EVENT_READ)
            self._selector.register(self.ended, selectors.EVENT_READ)
            self._left = {feed: memoryview(data) for feed, data in self.feeds.items()}
            while not self._is_over or self._is_draining():
                self._turn()

    def _is_draining(self) -> bool:
        waiting = self._selector.get_map()
        return any(each in waiting for each in self._said) and time.monotonic() < self._deadline

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            if key.fd == self.ended:
                self._end()
            elif key.fd in self._said:
                self._drain(key.fd)
            else:
                self._feed(key.fd)
        if self._is_over:
            return
        if time.monotonic() >= self._deadline:
            self._stop("timeout")
        elif passed := self._look():
            self._stop(passed)

    def _look(self) -> PassedLimit | None:
        """The limit that was exceeded; calls `look` at most every `_LOOK_EVERY_S`."""
        now = time.monotonic()
        if self.look is None or self.started is None or now < self._next_look:
            return None
        self._next_look = now + _LOOK_EVERY_S
        return self.look()

    def _patience(self) -> float:
        left = max(0.0, self._deadline - time.monotonic())
        return min(left, _LOOK_EVERY_S) if self.look else left

    def _stop(self, why: PassedLimit) -> None:
        self.stopped = self.stopped or why
        self._kill()

    def _kill(self) -> None:
        self.was_killed = True
        self.kill()
        # It is dead, or will be as soon as the kernel gets to it: no need to kill it in a loop.
        self._deadline = time.monotonic() + _DRAINING_S

    def _end(self) -> None:
        self.finished = time.monotonic()
        self._is_over = True
        self._deadline = self.finished + _DRAINING_S
        self._selector.unregister(self.ended)
        for feed in tuple(self._left):
            self._finish(feed)

    def _finish(self, descriptor: int) -> None:
        self._left.pop(descriptor, None)
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        self.pipes.close(descriptor)

    def _feed(self, descriptor: int) -> None:
        if descriptor not in self._left:
            return
        left = self._left[descriptor]
        with suppress(BlockingIOError):
            try:
                self._left[descriptor] = left[os.write(descriptor, left[:_PIECE]) :]
            except BrokenPipeError:
                self._left[descriptor] = left[:0]
        if not self._left[descriptor]:
            if self.dialogue is not None and descriptor == self.stdin:
                self._selector.unregister(descriptor)
            else:
                self._finish(descriptor)

    def _converse(self, piece: bytes) -> None:
        """Pass on new output. Only a turn moves the deadline: more bytes do not."""
        turn = self.dialogue.hear(piece) if self.dialogue is not None else None
        if turn is None or self.stdin is None or self.stdin not in self._left:
            return
        if not turn.told:
            self._kill()
            return
        if not self._left[self.stdin]:
            self._selector.register(self.stdin, selectors.EVENT_WRITE)
        self._left[self.stdin] = memoryview(bytes(self._left[self.stdin]) + turn.told)
        self._deadline = time.monotonic() + turn.seconds

    def _drain(self, descriptor: int) -> None:
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._finish(descriptor)
            return
        if descriptor == self.report:
            left = self.report_bytes - len(self._said[descriptor])
        else:
            left = self.output_bytes - len(self._said[self.stdout]) - len(self._said[self.stderr])
        self._said[descriptor] += piece[:left]
        if len(piece) > left and not self.stopped:
            self._stop("output")
        elif descriptor == self.stdout and not self.stopped:
            self._converse(piece)
        if descriptor == self.report and self.started is None:
            self.started = time.monotonic()
            self._deadline = self.started + self.wall_s
