"""`Engine`: does blocks of work somewhere, and says what became of each.

A block is done at least once and told of exactly once. What comes of it is the caller's to keep,
under a key of the block's own: so a lost worker, node or driver costs time, and nothing else.
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
"""Workers that may die over a block before it is told as failed."""
_TEXT_CHARS = 500


class Work(Protocol[Block_contra, Result_co]):
    """What is done to blocks. It travels to the workers, so it is small, and can be pickled."""

    def open(self) -> AbstractContextManager[Callable[[Block_contra], Result_co]]:
        """Gets a worker ready, once; what it gives does one block after another."""


@dataclass(frozen=True, slots=True)
class BlockOutcome(Generic[About, Result]):
    """What became of a block."""

    about: About
    """What the caller knows of it."""
    result: Result | None = None
    error: str | None = None
    """Why there is no result, in one sentence."""

    def require(self) -> Result:
        """The result; WorkFailed where there is none."""
        if self.error is not None:
            raise WorkFailed(self.error)
        return self.result  # type: ignore[return-value]


class Engine(ABC):
    """A place that does blocks of work. As a context, it ends what it started."""

    shares_files = True
    """Whether a worker finds under a path what the caller has there."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Ends all workers, whatever they do."""

    @abstractmethod
    def _open_crew(self, work: Work[Any, Any]) -> AbstractContextManager[Crew]:
        """Workers for one kind of work, of which those that still do something end with it."""

    def map(
        self, work: Work[Block, Result], blocks: Iterable[tuple[About, Block]], *, ahead: int = 8
    ) -> Generator[BlockOutcome[About, Result]]:
        """The outcome of every block, as they come; closing the iterator ends the work.

        With a block comes what the caller knows of it, which stays here.
        Blocks are asked for as there is room: none is begun that lies `ahead` blocks for each
        worker behind the oldest that is not done, so results can be sorted in bounded memory.
        """
        waiting = _Waiting(iter(blocks), ahead * self.workers)
        with self._open_crew(work) as crew:
            while True:
                while crew.has_room and (given := waiting.take()) is not None:
                    crew.begin(*given)
                if not waiting.under_way:
                    return
                for number, end in crew.wait():
                    outcome = waiting.end(number, end)
                    if outcome is not None:
                        yield outcome


@dataclass(frozen=True, slots=True)
class BlockDone:
    """A worker has done a block."""

    result: Any


@dataclass(frozen=True, slots=True)
class BlockFailed:
    """The work itself said no; doing it again would come to the same."""

    error: str


@dataclass(frozen=True, slots=True)
class BlockLost:
    """The worker is gone, and what it did with it."""

    how: str
    blamed: bool = True
    """Whether the block may be why."""


BlockEnd = BlockDone | BlockFailed | BlockLost


class Crew(Protocol):
    """The workers of one `map`."""

    @property
    def has_room(self) -> bool:
        """Whether another block can be begun."""

    def begin(self, number: int, block: Any) -> None:
        """Hands a block to a worker."""

    def wait(self) -> list[tuple[int, BlockEnd]]:
        """Blocks that have ended since, at least one."""


class _Waiting:
    """Blocks from the first look at them to their end; those that were lost go first."""

    def __init__(self, blocks: Iterator[tuple[Any, Any]], ahead: int) -> None:
        self._blocks = blocks
        self._ahead = max(1, ahead)
        self._count = 0
        self._again: deque[int] = deque()
        self.under_way: dict[int, tuple[Any, Any]] = {}
        """By number, in the order in which they were first begun: what is known of it, and it."""
        self._losses: dict[int, int] = {}

    def take(self) -> tuple[int, Any] | None:
        """The next to be begun; None where there is none by now."""
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
        """What is told of a block; None where it is done again."""
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
    """What a block raised, in one sentence that may travel."""
    if isinstance(error, TallymarkError):
        return str(error)
    try:
        said = shorten_line(str(error), _TEXT_CHARS)
    except Exception:  # noqa: BLE001 (a user's own error may not even say what it is)
        said = ""
    return f"a worker could not go on: {type(error).__name__}" + (f": {said}" if said else "")


@dataclass(frozen=True, slots=True)
class PackedWork:
    """Work on its way, with what it takes to find the user's own code."""

    path: tuple[str, ...]
    folder: str
    work: bytes

    @classmethod
    def pack(cls, work: Work[Any, Any]) -> PackedWork:
        """As it is here."""
        return cls(tuple(sys.path), str(Path.cwd()), pickle.dumps(work))

    def unpack(self) -> Work[Any, Any]:
        """As it was there; what this machine has by itself comes first."""
        sys.path += [each for each in self.path if each not in sys.path]
        with suppress(OSError):  # on another machine it may not exist
            os.chdir(self.folder)
        work: Work[Any, Any] = pickle.loads(self.work)  # noqa: S301 (from our own driver)
        return work


class WorkBench:
    """In a worker: the work that it is ready for, opened once and kept until another comes."""

    def __init__(self) -> None:
        self._token: object = None
        self._opened: AbstractContextManager[Callable[[Any], Any]] | None = None
        self._do: Callable[[Any], Any] | None = None

    def is_ready(self, token: object) -> bool:
        """Whether it has this work open."""
        return self._do is not None and self._token == token

    def open(self, token: object, work: PackedWork) -> None:
        """Gets ready for another work."""
        self.close()
        self._opened = work.unpack().open()
        self._do, self._token = self._opened.__enter__(), token

    def do(self, block: Any) -> Any:
        """One block."""
        if self._do is None:
            raise RuntimeError("there is no work on this bench")
        worker = os.getpid()
        try:
            return self._do(block)
        finally:
            if os.getpid() != worker:  # a copy that the work made of us: one of us answers
                os._exit(0)

    def close(self) -> None:
        """Lets go of it."""
        opened, self._opened, self._do = self._opened, None, None
        if opened is not None:
            opened.__exit__(None, None, None)
