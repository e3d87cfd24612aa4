"""An engine for tests: this process, a block at a time; all that travels is pickled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from tallymark.engine.engine import (
    BlockDone,
    BlockEnd,
    BlockFailed,
    Engine,
    Work,
    WorkerPool,
    describe_error,
)
from tallymark.engine.engine_choice import EngineChoice


class SerialEngine(Engine):
    """Does the newest block first, so that nothing rests on their order."""

    def __init__(self, workers: int = 2) -> None:
        super().__init__(workers)
        self.done = 0
        self.die_after: int | None = None
        """Number of blocks before the driver is interrupted."""

    def close(self) -> None:
        """There is nothing to end."""

    def _open_pool(self, work: Work[Any, Any]) -> AbstractContextManager[WorkerPool]:
        return _SerialCrew(self, pickle.loads(pickle.dumps(work)))


class _SerialCrew:
    def __init__(self, engine: SerialEngine, work: Work[Any, Any]) -> None:
        self._engine = engine
        self._opened = work.open()
        self._given: list[tuple[int, bytes]] = []

    def __enter__(self) -> Self:
        self._do = self._opened.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.__exit__(None, None, None)

    @property
    def has_room(self) -> bool:
        return len(self._given) < self._engine.workers

    def begin(self, number: int, block: Any) -> None:
        self._given.append((number, pickle.dumps(block)))

    def wait(self) -> list[tuple[int, BlockEnd]]:
        if self._engine.done == self._engine.die_after:
            raise KeyboardInterrupt
        number, block = self._given.pop()
        try:
            result = self._do(pickle.loads(block))
        except Exception as error:  # noqa: BLE001 (as real engines do)
            return [(number, BlockFailed(describe_error(error)))]
        self._engine.done += 1
        return [(number, BlockDone(pickle.loads(pickle.dumps(result))))]


@dataclass(frozen=True)
class SerialChoice(EngineChoice):
    """Opens this engine."""

    engine: SerialEngine = field(default_factory=SerialEngine)

    @contextmanager
    def open(self) -> Iterator[Engine]:
        """The one engine."""
        yield self.engine
