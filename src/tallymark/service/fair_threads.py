"""`FairThreads`: worker threads shared between owners in turn, with a limit for each owner.

A request that cannot start waits in the event loop and holds no thread. So a client with many
requests delays no other client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from tallymark.errors import Busy
from tallymark.service.callers import Caller
from tallymark.service.limits import group_address

T = TypeVar("T")

TOTAL = 40
EACH = 4
"""Requests of one owner that run at the same time, and half as many while there are others: all
threads share one interpreter, so each that computes slows down all requests."""
MOST_WAITING = 500
"""Requests of one owner that wait for their turn; more are refused. Each takes about 20 kB, and a
room full of people may share one address."""
MOST_BULKS_WAITING = 64
"""Limit of bulk reports, which are larger and take longer."""
LONGEST_WAIT_S = 10.0
_RETRY_AFTER = 1.0
_CHUNK = 65_536


def name_share(caller: Caller) -> str:
    """Owner whose share of threads a caller uses; without a key, their address."""
    if caller.key_id is None and caller.owner is None:
        return group_address(caller.address)
    return f"{caller.tenant} {caller.owner or caller.agent or caller.name}"


@dataclass(eq=False, slots=True)
class _Share:
    """Running and waiting calls of one owner."""

    running: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    is_listed: bool = False
    """True if the owner can start another call."""


class FairTurns:
    """At most `total` turns at once, `each` of one owner; owners who wait take turns.

    It belongs to one event loop. Busy is raised when an owner has too much waiting already, or has
    waited too long.
    """

    def __init__(
        self,
        total: int = TOTAL,
        each: int = EACH,
        *,
        most_waiting: int = MOST_WAITING,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self._total = total
        self._each = each
        self._most_waiting = most_waiting
        self._longest_wait_s = longest_wait_s
        self._running = 0
        self._shares: dict[str, _Share] = {}
        self._startable: deque[str] = deque()
        """Owners with something that waits and less than `each` running, in their order."""

    @asynccontextmanager
    async def take(self, owner: str, *, patient: bool = False) -> AsyncIterator[None]:
        """Wait for a turn and hold it. One that is `patient` is never refused: its request has
        begun, and what is left of it must be done.
        """
        share = self._shares.setdefault(owner, _Share())
        if len(share.waiting) >= self._most_waiting and not patient:
            raise Busy(
                f"{len(share.waiting)} of your requests are waiting already",
                retry_after=_RETRY_AFTER,
                hint="wait for the answers before you send more",
            )
        turn = asyncio.get_running_loop().create_future()
        share.waiting.append(turn)
        self._list(owner, share)
        self._start_next()
        try:
            if not turn.done():
                await self._wait(turn, None if patient else self._longest_wait_s)
            yield
        finally:
            if turn.done():
                share.running -= 1
                self._running -= 1
            else:
                share.waiting.remove(turn)
            self._list(owner, share)
            self._start_next()
            if not share.running and not share.waiting and not share.is_listed:
                self._shares.pop(owner, None)
                if len(self._shares) == 1:  # who is alone now may have more turns
                    self._list(*next(iter(self._shares.items())))
                    self._start_next()

    async def _wait(self, turn: asyncio.Future[None], seconds: float | None) -> None:
        # Not `wait_for`: a turn that is given while the time runs out must not be lost.
        await asyncio.wait([turn], timeout=seconds)
        if not turn.done():
            raise Busy(
                "the server was busy with your other requests too long",
                retry_after=_RETRY_AFTER,
                hint="send fewer at once",
            )

    def _list(self, owner: str, share: _Share) -> None:
        most = self._each if len(self._shares) == 1 else max(1, self._each // 2)
        if share.waiting and share.running < most and not share.is_listed:
            share.is_listed = True
            self._startable.append(owner)

    def _start_next(self) -> None:
        while self._startable and self._running < self._total:
            owner = self._startable.popleft()
            share = self._shares[owner]
            share.is_listed = False
            if share.waiting:
                share.waiting.popleft().set_result(None)
                share.running += 1
                self._running += 1
                self._list(owner, share)
            elif not share.running:  # what waited has gone
                del self._shares[owner]

    def count(self) -> dict[str, int]:
        """Number of running and waiting calls of all owners."""
        waiting = sum(len(each.waiting) for each in tuple(self._shares.values()))
        return {"running": self._running, "waiting": waiting}


class FairThreads:
    """Runs blocking work in threads, which owners share by `FairTurns`."""

    def __init__(self, total: int = TOTAL, turns: FairTurns | None = None) -> None:
        self._turns = turns or FairTurns(total)
        # Never waited for: there are as many turns as threads.
        self._limiter = CapacityLimiter(total)

    async def run(
        self, owner: str, work: Callable[..., T], *given: object, patient: bool = False
    ) -> T:
        """Do the work in a thread when it is the owner's turn."""
        async with self._turns.take(owner, patient=patient):
            return await to_thread.run_sync(partial(work, *given), limiter=self._limiter)

    def count(self) -> dict[str, int]:
        """How many run and wait, of all owners."""
        return self._turns.count()

    async def iterate(self, owner: str, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Stream what an iterator reads; between parts of it others have their turns."""
        while part := await self.run(owner, _take_part, chunks, patient=True):
            yield part


def _take_part(chunks: Iterator[bytes]) -> bytes:
    """Small chunks together: each turn of a thread costs more than encoding a row."""
    parts, size = [], 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= _CHUNK:
            break
    return b"".join(parts)
