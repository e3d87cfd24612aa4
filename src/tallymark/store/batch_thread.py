"""One thread that works for all: what has arrived is done together, and each has its own answer.

An item that is alone waits for nobody; while a batch is done, the next one gathers. Answers are
given when all of the batch is done: of what is written, after the commit, and what is read was read
after it was asked for. See docs/decisions/0032-batches.md.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tallymark.errors import Busy, TallymarkError
from tallymark.watched_work import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Loop: TypeAlias = asyncio.AbstractEventLoop

MOST_WAITING = 10_000
"""More items than these are refused: whoever sent them can send them again."""
MOST_AT_ONCE = 500
_RETRY_AFTER = 1.0


class BatchThread:
    """Does items with `apply`, many at once: it gives for each an answer or an exception."""

    def __init__(
        self,
        apply: Callable[[Sequence[Any]], Sequence[Any]],
        *,
        name: str = "tally-batches",
        most_waiting: int = MOST_WAITING,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._apply = apply
        self._most_waiting = most_waiting
        self._most_at_once = most_at_once
        self._waiting: deque[tuple[Any, Any, Loop | None]] = deque()
        """Items, with the futures that get their answers and the loops of those."""
        self._lock = threading.RLock()  # entered itself: Ctrl-C could lose a condition locked
        self._arrived = threading.Condition(self._lock)
        self._closing = False
        self.batches = self.items = 0
        """How many were done since it began."""
        self._telling: set[Loop] = set()
        """Loops that will say, at the end of this turn, that something has arrived."""
        self._name = name
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, item: Any) -> Future[Any]:
        """Asks for an item to be done; the answer comes when its batch is done."""
        future: Future[Any] = Future()
        with self._lock:
            self._add(item, future, None)
            self._arrived.notify()
        return future

    def do_all(self, items: Sequence[Any]) -> list[Any]:
        """Does many, for each its answer, or the error that it had."""
        done = threading.Event()
        asked = self._ask_for_all(items, done.set)
        done.wait()
        return asked.read()

    async def ado_all(self, items: Sequence[Any]) -> list[Any]:
        """The same, while the event loop does other things."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                loop.call_soon_threadsafe(_resolve, done, None)

        asked = self._ask_for_all(items, tell)
        await done
        return asked.read()

    def _ask_for_all(self, items: Sequence[Any], tell: Callable[[], None]) -> _Asked:
        asked = _Asked(len(items), tell)
        with self._lock:
            for nth, item in enumerate(items):
                place = _Place(asked, nth)
                try:
                    self._add(item, place, None)
                except Busy as error:
                    place.answer(error)
            self._arrived.notify()
        return asked

    async def aput(self, item: Any) -> Any:
        """Does an item, while the event loop does other things."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._lock:
            self._add(item, future, loop)
            if loop not in self._telling:
                # Not at once: what else arrives in this turn of the loop then comes along.
                self._telling.add(loop)
                loop.call_soon(self._tell, loop)
        return await future

    def close(self) -> None:
        """Does what is waiting, then ends."""
        with self._lock:
            self._closing = True
            self._arrived.notify()
        self._thread.join()

    def __len__(self) -> int:
        """How many items are waiting."""
        return len(self._waiting)

    def _add(self, item: Any, future: Any, loop: Loop | None) -> None:
        if self._closing:
            raise Busy("the store is being closed", retry_after=_RETRY_AFTER)
        if len(self._waiting) >= self._most_waiting:
            raise Busy(
                f"{len(self._waiting)} things are waiting for the database",
                retry_after=_RETRY_AFTER,
                hint="try again a little later",
            )
        self._waiting.append((item, future, loop))

    def _tell(self, loop: Loop) -> None:
        with self._lock:
            self._telling.discard(loop)
            self._arrived.notify()

    def _work(self) -> None:
        while batch := self._take():
            items = [item for item, _, _ in batch]
            with watch("batch", thread=self._name, items=items):
                answers = self._do(items)
            self.batches += 1
            self.items += len(batch)
            told: dict[Loop, list[tuple[Any, Any]]] = {}
            for (_, future, loop), answer in zip(batch, answers, strict=True):
                if isinstance(future, _Place):
                    future.answer(answer)
                elif loop is None:
                    _resolve(future, answer)
                else:
                    told.setdefault(loop, []).append((future, answer))
            for loop, pairs in told.items():
                with suppress(RuntimeError):  # it was closed, and nobody waits any more
                    loop.call_soon_threadsafe(_resolve_all, pairs)

    def _take(self) -> list[tuple[Any, Any, Loop | None]]:
        """What has arrived, once something has; nothing when there will be nothing more."""
        with self._lock:
            while not self._waiting and not self._closing:
                self._arrived.wait()
            count = min(len(self._waiting), self._most_at_once)
            return [self._waiting.popleft() for _ in range(count)]

    def _do(self, items: list[Any]) -> Sequence[Any]:
        try:
            return self._apply(items)
        except Busy as error:  # the database: trying each by itself would take as long again
            return [error] * len(items)
        except Exception as error:  # noqa: BLE001 (whatever it was, its sender is told)
            if len(items) == 1:
                return [error]
        # One of them may be what nobody can do, and the others shall not suffer for it.
        return [answer for item in items for answer in self._do([item])]


class _Asked:
    """Many answers for one who waits for all: a future for each would cost as much as an item."""

    def __init__(self, count: int, tell: Callable[[], None]) -> None:
        """`tell` is called when all answers are there."""
        self.answers: list[Any] = [None] * count
        self.left = count
        self.lock = threading.Lock()
        self.tell = tell
        if not count:
            tell()

    def read(self) -> list[Any]:
        """All answers. What is no error of ours is raised."""
        for each in self.answers:
            if isinstance(each, Exception) and not isinstance(each, TallymarkError):
                raise each
        return self.answers


class _Place(NamedTuple):
    """Where an answer belongs."""

    asked: _Asked
    nth: int

    def answer(self, answer: Any) -> None:
        asked = self.asked
        asked.answers[self.nth] = answer
        with asked.lock:
            asked.left -= 1
            if not asked.left:
                asked.tell()


def _resolve(future: Any, answer: Any) -> None:
    if future.done():  # whoever waited has gone
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _resolve_all(pairs: list[tuple[Any, Any]]) -> None:
    for future, answer in pairs:
        _resolve(future, answer)
