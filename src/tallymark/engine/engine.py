"""`Engine`: runs blocks of work and yields the outcome of each.

A block runs at least once and is reported exactly once. The caller stores its result under the
block's key, so a lost worker, node or driver costs only time.
"""

from __future__ import annotations

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from tallymark.errors import TallymarkError, WorkFailed
from tallymark.text import shorten_line

About = TypeVar("About")
Block = TypeVar("Block")
Result = TypeVar("Result")
Block_contra = TypeVar("Block_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
MOST_LOSSES = 3
"""Workers that may die while running a block before it is reported as failed."""
_TEXT_CHARS = 500


class Work(Protocol[Block_contra, Result_co]):
    """A function over blocks. It is pickled and sent to workers, so it is small."""

    def open(self) -> AbstractContextManager[Callable[[Block_contra], Result_co]]:
        """Prepare a worker once; the result runs one block after another."""


@dataclass(frozen=True, slots=True)
class BlockOutcome(Generic[About, Result]):
    """Outcome of a block."""

    about: About
    """The caller's own data about the block."""
    result: Result | None = None
    error: str | None = None
    """Reason in one sentence if there is no result."""

    def require(self) -> Result:
        """Return the result; raise WorkFailed if there is none."""
        if self.error is not None:
            raise WorkFailed(self.error)
        return self.result  # type: ignore[return-value]


class Engine(ABC):
    """Runs blocks of work. As a context manager, it ends everything that it started."""

    shares_files = True
    """True if workers see the same files as the caller."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End all workers, busy ones too."""

    @abstractmethod
    def _open_pool(self, work: Work[Any, Any]) -> AbstractContextManager[WorkerPool]:
        """Workers for one kind of work; busy ones end with the context."""

    def map(
        self, work: Work[Block, Result], blocks: Iterable[tuple[About, Block]], *, ahead: int = 8
    ) -> Generator[BlockOutcome[About, Result]]:
        """Yield the outcome of every block as it ends; closing the iterator ends the work.

        The caller's data about a block is not sent to workers. Blocks are taken as workers are
        free, and never more than `ahead` per worker past the oldest unfinished one, so results can
        be sorted in bounded memory.
        """
        waiting = _Waiting(iter(blocks), ahead * self.workers)
        with self._open_pool(work) as pool:
            while True:
                while pool.has_room and (given := waiting.take()) is not None:
                    pool.begin(*given)
                if not waiting.under_way:
                    return
                for number, end in pool.wait():
                    outcome = waiting.end(number, end)
                    if outcome is not None:
                        yield outcome


@dataclass(frozen=True, slots=True)
class BlockDone:
    """A worker has done a block."""

    result: Any


@dataclass(frozen=True, slots=True)
class BlockFailed:
    """The work raised an error; running it again would fail again."""

    error: str


@dataclass(frozen=True, slots=True)
class BlockLost:
    """The worker died, and the block with it."""

    how: str
    blamed: bool = True
    """True if the block may be the cause."""


BlockEnd = BlockDone | BlockFailed | BlockLost


class WorkerPool(Protocol):
    """The workers of one `map`."""

    @property
    def has_room(self) -> bool:
        """True if another block can be started."""

    def begin(self, number: int, block: Any) -> None:
        """Send a block to a worker."""

    def wait(self) -> list[tuple[int, BlockEnd]]:
        """Wait until at least one block has ended."""


class _Waiting:
    """Unfinished blocks; lost ones are run again first."""

    def __init__(self, blocks: Iterator[tuple[Any, Any]], ahead: int) -> None:
        self._blocks = blocks
        self._ahead = max(1, ahead)
        self._count = 0
        self._again: deque[int] = deque()
        self.under_way: dict[int, tuple[Any, Any]] = {}
        """By number, in the order in which they were first begun: what is known of it, and it."""
        self._losses: dict[int, int] = {}

    def take(self) -> tuple[int, Any] | None:
        """Take the next block to start; None if there is none now."""
        if self._again:
            number = self._again.popleft()
            return number, self.under_way[number][1]
        oldest = next(iter(self.under_way), self._count)
        if self._count - oldest >= self._ahead:
            return None
        for about, block in self._blocks:
            number = self._count
            self._count += 1
            self.under_way[number] = about, block
            return number, block
        return None

    def end(self, number: int, end: BlockEnd) -> BlockOutcome[Any, Any] | None:
        """Return the outcome of a block; None if it is run again."""
        if isinstance(end, BlockLost):
            losses = self._losses[number] = self._losses.get(number, 0) + end.blamed
            if losses < MOST_LOSSES:
                self._again.append(number)
                return None
            said = f"{losses} workers died over the same block of work; the last {end.how}"
            end = BlockFailed(said)
        about, _ = self.under_way.pop(number)
        self._losses.pop(number, None)
        if isinstance(end, BlockFailed):
            return BlockOutcome(about, error=end.error)
        return BlockOutcome(about, end.result)


def describe_error(error: BaseException) -> str:
    """Describe an error of a block in one sentence."""
    if isinstance(error, TallymarkError):
        return str(error)
    try:
        said = shorten_line(str(error), _TEXT_CHARS)
    except Exception:  # noqa: BLE001 (a user's own error may not even say what it is)
        said = ""
    return f"a worker failed: {type(error).__name__}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True)
class PackedWork:
    """Pickled work with the paths needed to import the user's own code."""

    path: tuple[str, ...]
    folder: str
    work: bytes

    @classmethod
    def pack(cls, work: Work[Any, Any]) -> PackedWork:
        """Pickle work with this process's paths."""
        return cls(tuple(sys.path), str(Path.cwd()), pickle.dumps(work))

    def unpack(self) -> Work[Any, Any]:
        """Unpickle the work; this machine's own import paths come first."""
        sys.path += [each for each in self.path if each not in sys.path]
        with suppress(OSError):  # on another machine it may not exist
            os.chdir(self.folder)
        work: Work[Any, Any] = pickle.loads(self.work)  # noqa: S301 (from our own driver)
        return work


class WorkBench:
    """The open work of a worker process, reused until another work arrives."""

    def __init__(self) -> None:
        self._token: object = None
        self._opened: AbstractContextManager[Callable[[Any], Any]] | None = None
        self._do: Callable[[Any], Any] | None = None

    def is_ready(self, token: object) -> bool:
        """Check if this work is open."""
        return self._do is not None and self._token == token

    def open(self, token: object, work: PackedWork) -> None:
        """Open another work in place of the current one."""
        self.close()
        self._opened = work.unpack().open()
        self._do, self._token = self._opened.__enter__(), token

    def do(self, block: Any) -> Any:
        """Run one block."""
        if self._do is None:
            raise RuntimeError("there is no work on this bench")
        worker = os.getpid()
        try:
            return self._do(block)
        finally:
            if os.getpid() != worker:  # a copy that the work made of us: one of us answers
                os._exit(0)

    def close(self) -> None:
        """Close the open work."""
        opened, self._opened, self._do = self._opened, None, None
        if opened is not None:
            opened.__exit__(None, None, None)
