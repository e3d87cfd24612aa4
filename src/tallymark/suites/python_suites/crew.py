"""Workers that take case after case, and a watch that goes on without those that hang.

No case costs a timer of its own: a worker's slot notes until when its agent may take, and the
watch looks at the slots when the first of them is due. A worker that is late is left behind, its
case fails, and a new worker takes its place.

Nothing on the way of a case takes a lock. What threads share are deques, lists and sets whose
single operations are atomic: the next number is popped by one thread only, and so is the claim
on a case, by its worker or by the watch.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tallymark.runs.record import CaseResult
    from tallymark.suites.python_suites.agent_call import AgentCall
    from tallymark.suites.python_suites.suite_run import SuiteJob


class WorkerSlot:
    """A worker's place."""

    __slots__ = ("case", "claim", "deadline", "seen", "work")

    def __init__(self) -> None:
        self.case: AgentCall | None = None
        self.deadline = float("inf")
        """When the time of the agent is up."""
        self.claim: list[AgentCall] = []
        """Holds the case while the agent works; whoever takes it out tells the result."""
        self.work: asyncio.Task[None] | Future[Any] | None = None
        """What can be cancelled of the worker."""
        self.seen: AgentCall | None = None
        """The case at the last look."""

    def start(self, case: AgentCall) -> None:
        """Note that the agent begins with a case."""
        self.case = case
        self.deadline = time.monotonic() + case.plan.seconds
        self.claim.append(case)

    def take_claim(self) -> bool:
        """Take the case out; False when the other side did so before."""
        try:
            self.claim.pop()
        except IndexError:
            return False
        return True


class Crew(ABC):
    """What both kinds of workers share."""

    def __init__(self, job: SuiteJob) -> None:
        self._job = job
        self._at_once = min(job.parallelism, job.total)
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._numbers = deque(range(job.total))
        self._slots: set[WorkerSlot] = set()
        self._wake = asyncio.Event()
        self._broken: BaseException | None = None
        self._stopped = False

    async def run(self) -> None:
        """Bring all cases to their end; what `on_result` raises stops the run and comes out."""
        self._start()
        try:
            while not self._job.complete and self._broken is None:
                await self._nap(self._until_next_look())
                self._look()
        finally:
            self._stopped = True
            for slot in list(self._slots):
                if slot.work is not None:
                    slot.work.cancel()
        if self._broken is not None:
            raise self._broken

    @abstractmethod
    def _start(self) -> None:
        """Begin with the first workers."""

    @abstractmethod
    def _hire(self) -> None:
        """Add one worker."""

    async def _nap(self, seconds: float) -> None:
        timer = None
        if seconds < threading.TIMEOUT_MAX:
            timer = self._loop.call_later(seconds, self._wake.set)
        await self._wake.wait()
        self._wake.clear()
        if timer is not None:
            timer.cancel()

    def _until_next_look(self) -> float:
        """Until the first deadline; a case that starts meanwhile cannot be due any earlier."""
        now = time.monotonic()
        due = [slot.deadline - now for slot in list(self._slots) if slot.claim]
        return max(0.0, min([self._job.shortest, *due]))

    def _look(self) -> None:
        """Leave workers behind whose agent is late."""
        now = time.monotonic()
        for slot in list(self._slots):  # a copy: workers come and go meanwhile
            case = slot.case
            if case is not None and slot.deadline <= now and slot.take_claim():
                self._slots.discard(slot)
                self._leave(slot)
                self._tell(case, case.fail(f"the agent did not finish in {case.plan.seconds:g} s"))
                self._hire()

    def _leave(self, slot: WorkerSlot) -> None:
        """Go on without a worker."""
        if slot.work is not None:
            slot.work.cancel()

    def _take(self, slot: WorkerSlot) -> AgentCall | None:
        """The next case for a worker, or None when there are no more."""
        try:
            if self._stopped:
                raise IndexError  # noqa: TRY301 (no more for this worker)
            number = self._numbers.popleft()
        except IndexError:
            self._slots.discard(slot)
            return None
        case = self._job.case(number, self._context.copy())
        slot.start(case)
        return case

    def _tell(self, case: AgentCall, result: CaseResult) -> None:
        """Note a result, and wake the watch when it was the last one."""
        if not self._stopped:
            self._job.tell(case.number, result)
            if self._job.complete:
                self._rouse()

    def _break(self, error: BaseException) -> None:
        """Stop everything for an error that is not the agent's."""
        self._broken = self._broken or error
        self._rouse()

    def _rouse(self) -> None:
        """Wake the watch, from any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody watches any more
            self._loop.call_soon_threadsafe(self._wake.set)
