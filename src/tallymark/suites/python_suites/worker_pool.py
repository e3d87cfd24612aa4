"""Workers that take case after case, and a watch that goes on without those that hang.

An async agent is awaited in the event loop, any other is called in a thread, because it may block.
No case costs a timer of its own: a worker's slot notes until when its agent may take, and the
watch looks at the slots when the first of them is due. A worker that is late is left behind, its
case fails, and a new worker takes its place.

What threads share are deques, lists and sets whose single operations are atomic: the next number
is popped by one thread only, and so is the claim on a case, by its worker or by the watch.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from tallymark.abandonable_calls import NotFinished, call_in_thread, contain, leave_task
from tallymark.importing import is_async
from tallymark.scoring import EvalContext
from tallymark.suites.python_suites.agent_call import AgentFailure
from tallymark.text import format_number
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.runs.record import CaseResult
    from tallymark.suites.python_suites.agent_call import AgentCall
    from tallymark.suites.python_suites.suite_and_test import Agent
    from tallymark.suites.python_suites.suite_run import SuiteJob

_PLAIN_TYPES = frozenset({str, dict, Trace, AgentFailure})
"""Types that are certainly not awaitable, for a quick test."""
_FIRST_LOOK = 0.001
_RAREST_LOOK = 0.05
"""Seconds between two looks at whether more threads would help."""


class WorkerSlot:
    """A worker's place."""

    __slots__ = ("case", "claim", "deadline", "seen", "task")

    def __init__(self) -> None:
        self.case: AgentCall | None = None
        self.seen: AgentCall | None = None
        """The case at the last look."""
        self.deadline = float("inf")
        """When the time of the agent is up."""
        self.claim: list[AgentCall] = []
        """Holds the case while the agent works; the one that takes it out reports the result."""
        self.task: asyncio.Task[None]

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


class CasePool:
    """The workers of one run."""

    def __init__(self, job: SuiteJob) -> None:
        self._job = job
        self._at_once = min(job.parallelism, job.total)
        self._look_in = _FIRST_LOOK
        self._is_async = is_async(job.agent)
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._numbers = deque(range(job.total))
        self._slots: set[WorkerSlot] = set()
        self._end: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Bring all cases to their end; what `on_result` raises stops the run and comes out."""
        for _ in range(self._at_once if self._is_async else 1):
            self._hire()
        try:
            while not self._end.done():
                await asyncio.wait((self._end,), timeout=self._until_next_look())
                self._look()
        finally:
            self._numbers.clear()
            self._end.cancel()
            for slot in list(self._slots):  # a copy: threads take theirs out meanwhile
                leave_task(slot.task)
        self._end.result()

    def _until_next_look(self) -> float | None:
        """Until the first deadline; a case that starts meanwhile cannot be due any earlier."""
        now = time.monotonic()
        due = [slot.deadline - now for slot in list(self._slots) if slot.claim]
        first = min([self._job.shortest, *due, *([] if self._is_full() else [self._look_in])])
        return None if first == float("inf") else first

    def _look(self) -> None:
        """Leave workers behind whose agent is late."""
        now = time.monotonic()
        for slot in list(self._slots):
            case = slot.case
            if case is not None and slot.deadline <= now and slot.take_claim():
                self._slots.discard(slot)
                leave_task(slot.task)
                limit = format_number(case.plan.seconds)
                self._tell(case, case.fail(f"the agent did not finish in {limit} s"))
                self._hire()
        if not self._is_full():
            self._grow()

    def _is_full(self) -> bool:
        return len(self._slots) >= self._at_once or not self._numbers

    def _grow(self) -> None:
        """Twice as many workers, when all of them are found at the same case twice: one thread is
        enough for an agent that returns at once, and more would only slow each other down.
        """
        slots = list(self._slots)
        if all(slot.claim and slot.case is slot.seen for slot in slots):
            for _ in range(min(len(slots), self._at_once - len(slots))):
                self._hire()
            self._look_in = _FIRST_LOOK
        else:
            self._look_in = min(2 * self._look_in, _RAREST_LOOK)
        for slot in slots:
            slot.seen = slot.case

    def _hire(self) -> None:
        slot = WorkerSlot()
        self._slots.add(slot)
        self._go_on(slot)

    def _go_on(self, slot: WorkerSlot) -> None:
        """Have a worker take the next case."""
        if not self._is_async:
            slot.task = self._loop.create_task(self._send_to_thread(slot))
        elif (case := self._take(slot)) is not None:
            self._start_task(slot, case, self._job.agent, case.given)

    def _take(self, slot: WorkerSlot) -> AgentCall | None:
        """The next case for a worker; None at the end."""
        try:
            number = self._numbers.popleft()
        except IndexError:
            self._slots.discard(slot)
            return None
        case = self._job.case(number, self._context.copy())
        slot.start(case)
        return case

    async def _send_to_thread(self, slot: WorkerSlot) -> None:
        try:
            found = await call_in_thread(partial(self._call_agent, slot), owner=self)
            case = slot.case
            if case is None or found is None:
                return
            if isinstance(found, EvalContext):
                self._tell(case, await case.wait_for_scores(found))
                self._go_on(slot)
            else:
                self._start_task(slot, case, _return_itself, found)
        except NotFinished as error:
            case = self._take(slot)
            if case is not None and slot.take_claim():
                self._tell(case, case.fail(f"the agent {error}"))
                self._go_on(slot)
        except Exception as error:  # noqa: BLE001 (not the agent's error: it stops the run)
            self._stop(error)

    def _call_agent(self, slot: WorkerSlot) -> object:
        """Bring case after case to its end, in a thread. What needs the event loop is returned:
        an awaitable of the agent's, or a context whose scorers wait.
        """
        while (case := self._take(slot)) is not None:
            returned = case.context.run(_call, self._job.agent, case.given)
            if returned.__class__ not in _PLAIN_TYPES and inspect.isawaitable(returned):
                return returned
            if not slot.take_claim():
                return None
            found = case.read_return(returned)
            if isinstance(found, EvalContext):
                if not case.plan.inline:
                    return found
                found = case.score(found)
            self._tell(case, found)
        return None

    def _start_task(self, slot: WorkerSlot, case: AgentCall, agent: Agent, given: Any) -> None:
        # A task for each case, so that what the agent sets in its context stays there.
        work = self._await_agent(slot, case, agent, given)
        slot.task = asyncio.Task(work, loop=self._loop, context=case.context)

    async def _await_agent(
        self, slot: WorkerSlot, case: AgentCall, agent: Agent, given: Any
    ) -> None:
        try:
            returned = await contain(AgentFailure, agent, given)
            if slot.take_claim():
                found = case.read_return(returned)
                if isinstance(found, EvalContext):
                    inline = case.plan.inline
                    found = case.score(found) if inline else await case.wait_for_scores(found)
                self._tell(case, found)
                self._go_on(slot)
        except Exception as error:  # noqa: BLE001 (not the agent's error: it stops the run)
            self._stop(error)

    def _tell(self, case: AgentCall, result: CaseResult) -> None:
        """Note a result, from any thread."""
        if not self._end.done():
            self._job.tell(case.number, result)
            if self._job.complete:
                self._loop.call_soon_threadsafe(self._stop)

    def _stop(self, error: Exception | None = None) -> None:
        """End the run: all is done, or something went wrong that is not the agent's."""
        if self._end.done():
            return
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)


def _call(agent: Agent, given: Any) -> Any:
    try:
        return agent(given)
    except BaseException as error:  # noqa: BLE001 (whatever an agent raises is its own failure)
        return AgentFailure(error)


def _return_itself(awaitable: Any) -> Any:
    return awaitable
