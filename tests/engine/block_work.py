"""Kinds of work for the conformance suite: workers import them by name."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Doing:
    """Runs a block, which is a word and its argument."""

    folder: Path
    """Folder for notes of workers."""

    @contextmanager
    def open(self) -> Iterator[Callable[[tuple[str, Any]], Any]]:
        """Notes that a worker has got ready, and that it has put things away."""
        note = self.folder / f"open-{os.getpid()}-{time.monotonic_ns()}"
        note.touch()
        try:
            yield lambda block: _ACTS[block[0]](self.folder, block[1])
        finally:
            note.rename(note.with_name(note.name.replace("open", "closed")))


@dataclass(frozen=True)
class NeverReady:
    """Work that no worker can get ready for."""

    def open(self) -> AbstractContextManager[Callable[[Any], Any]]:
        """Raise an error with a reason."""
        raise ValueError("there is no scorer here")


def _square(_: Path, number: int) -> int:
    return number * number


def _fail(_: Path, why: str) -> None:
    raise ValueError(why)


def _die(folder: Path, times: int) -> str:
    """Ends its process N times, then succeeds."""
    died = len(list(folder.glob("died-*")))
    if died < times:
        (folder / f"died-{died}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"after {died}"


def _fill(_: Path, size: int) -> bytes:
    return b"x" * size


def _sleep(folder: Path, seconds: float) -> float:
    (folder / f"asleep-{os.getpid()}").touch()
    time.sleep(seconds)
    return seconds


def _print(_: Path, text: str) -> str:
    print(text)  # noqa: T201 (what a user's scorer may do)
    return text


def _fork(folder: Path, number: int) -> int:
    """Leaves a copy of its process that sleeps, and one that comes back like itself."""
    if os.fork() == 0:
        (folder / f"asleep-{os.getpid()}").touch()
        time.sleep(600)
    os.fork()
    return number


def _fork_and_die(folder: Path, number: int) -> int:
    if not list(folder.glob("asleep-*")):
        if os.fork() == 0:
            (folder / f"asleep-{os.getpid()}").touch()
            time.sleep(600)
        while not list(folder.glob("asleep-*")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _start_and_die(folder: Path, number: int) -> int:
    """The shell makes a process that Python knows nothing of."""
    if not list(folder.glob("asleep-*")):
        os.system(f"sleep 600 & touch '{folder}'/asleep-$!")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


_STOPS = {each.__name__: each for each in (SystemExit, KeyboardInterrupt, _Wordless)}


def _stop(_: Path, name: str) -> None:
    raise _STOPS[name]


def _lambda(_: Path, __: object) -> Any:
    return lambda: None


_ACTS: dict[str, Callable[[Path, Any], Any]] = {
    "square": _square,
    "fail": _fail,
    "die": _die,
    "fill": _fill,
    "sleep": _sleep,
    "print": _print,
    "unsendable": _lambda,
    "fork": _fork,
    "fork and die": _fork_and_die,
    "start and die": _start_and_die,
    "stop": _stop,
}
