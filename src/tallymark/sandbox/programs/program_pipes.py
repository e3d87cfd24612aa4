"""Feeding and draining a child's pipes until it ends, says too much, or runs out of time.

Everything is non-blocking and in one loop, so that no amount of input or output can lock it.
"""

from __future__ import annotations

import os
import selectors
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable

PassedLimit = Literal["timeout", "cpu", "memory", "output", "disk"]
_PIECE = 1 << 16
_STARTING_S = 30.0
"""How long a sandbox may take to come up on a machine under load."""
_LOOK_EVERY_S = 0.02
_DRAINING_S = 2.0
"""How long after the end pipes are read that something escaped still holds open."""


class Turn(NamedTuple):
    """What a program is told next, and how long its answer may take."""

    told: bytes
    seconds: float


class Dialogue(Protocol):
    """Who talks with a program while it runs, by its stdin and stdout."""

    def hear(self, said: bytes) -> Turn | None:
        """What came just now: None while more is waited for; nothing to tell ends the program."""
        ...


class Pipes:
    """A child's ends and ours, all closed together whatever happens."""

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
        """Closes this one too."""
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Once, and never twice: the number may belong to another thread by then."""
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


@dataclass(kw_only=True)
class PipeTalk:
    """One child: what to feed it, what it says, and when it has to end.

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
    """Asked now and then: has a limit been passed that only the host can see?"""
    stdin: int | None = None
    """Stays open for the dialogue; `wall_s` is then the time until its first turn."""
    dialogue: Dialogue | None = None

    _said: dict[int, bytearray] = field(default_factory=dict, init=False)
    stopped: PassedLimit | None = field(default=None, init=False)
    was_killed: bool = field(default=False, init=False)
    """By us: for a limit, or because a dialogue was over."""
    started: float | None = field(default=None, init=False)
    finished: float = field(default=0.0, init=False)

    def said_on(self, descriptor: int) -> bytes:
        """All that was read there."""
        return bytes(self._said[descriptor])

    def wall(self) -> float:
        """Seconds from the program's start to its end."""
        return 0.0 if self.started is None else self.finished - self.started

    def hold(self) -> None:
        """Returns when the child is gone and its pipes are empty."""
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
        """The limit that was passed, asked at most so often."""
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
        """Passes on what was said. Only a turn moves the deadline: bytes win no time."""
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
            room = self.report_bytes - len(self._said[descriptor])
        else:
            room = self.output_bytes - len(self._said[self.stdout]) - len(self._said[self.stderr])
        self._said[descriptor] += piece[:room]
        if len(piece) > room and not self.stopped:
            self._stop("output")
        elif descriptor == self.stdout and not self.stopped:
            self._converse(piece)
        if descriptor == self.report and self.started is None:
            self.started = time.monotonic()
            self._deadline = self.started + self.wall_s
