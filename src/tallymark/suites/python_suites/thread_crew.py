"""Workers for an agent that is not async: threads, because it may block.

One thread is enough for an agent that returns at once, and more would only slow each other down.
So the crew starts with one, and doubles as long as all of them are found at the same case twice.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.scoring import EvalContext
from tallymark.scoring.scorer_calls import MOST_HANGING
from tallymark.suites.python_suites.agent_call import AgentFailure
from tallymark.suites.python_suites.crew import Crew, WorkerSlot
from tallymark.suites.python_suites.task_crew import await_agent
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tallymark.suites.python_suites.agent_call import AgentCall
    from tallymark.suites.python_suites.suite_run import SuiteJob

T = TypeVar("T")
_FIRST_LOOK = 0.001
_RAREST_LOOK = 0.05
"""Seconds between two looks at whether more threads would help."""
_PLAIN_TYPES = frozenset({str, dict, Trace, type(None)})
"""Returns that are certainly not awaitable, told apart quickly."""


class ThreadCrew(Crew):
    """Threads, as many as the agent keeps busy."""

    def __init__(self, job: SuiteJob) -> None:
        super().__init__(job)
        self._hanging: set[WorkerSlot] = set()
        self._look_in = _FIRST_LOOK

    def _start(self) -> None:
        self._hire()

    def _hire(self) -> None:
        slot = WorkerSlot()
        self._slots.add(slot)
        work = self._context.copy().run
        # Daemons, so that an agent that hangs does not keep Python from ending.
        threading.Thread(
            target=work, args=(self._work, slot), name="tallymark-agent", daemon=True
        ).start()

    def _until_next_look(self) -> float:
        look = super()._until_next_look()
        return look if self._is_full() else min(look, self._look_in)

    def _is_full(self) -> bool:
        return len(self._slots) >= self._at_once or not self._numbers

    def _look(self) -> None:
        super()._look()
        if self._is_full():
            return
        slots = list(self._slots)
        if all(slot.case is slot.seen for slot in slots):
            for _ in range(min(len(slots), self._at_once - len(slots))):
                self._hire()
            self._look_in = _FIRST_LOOK
        else:
            self._look_in = min(2 * self._look_in, _RAREST_LOOK)
        for slot in slots:
            slot.seen = slot.case

    def _leave(self, slot: WorkerSlot) -> None:
        super()._leave(slot)
        self._hanging.add(slot)

    def _work(self, slot: WorkerSlot) -> None:
        try:
            while (case := self._take(slot)) is not None:
                if not self._do_case(case, slot):
                    return
        except CancelledError:
            self._hanging.discard(slot)  # called off while it waited for the event loop
        except Exception as error:  # noqa: BLE001 (not the agent's error: it stops the run)
            self._break(error)

    def _do_case(self, case: AgentCall, slot: WorkerSlot) -> bool:
        """Do one case; False when nobody waited for it, so that its thread is not wanted."""
        if len(self._hanging) >= MOST_HANGING:
            slot.take_claim()
            self._tell(
                case, case.fail(f"the agent was not called: {MOST_HANGING} calls of it hang")
            )
            return True
        returned = case.context.run(self._call, case, slot)
        if not slot.take_claim():
            self._hanging.discard(slot)
            return False
        found = case.read_return(returned)
        if isinstance(found, EvalContext):
            plan = case.plan
            scores = (
                plan.scores(found)
                if plan.inline
                else self._wait_for(plan.wait_for_scores(found), slot)
            )
            found = case.judge_scores(found.trace, scores)
        self._tell(case, found)
        return True

    def _call(self, case: AgentCall, slot: WorkerSlot) -> object:
        try:
            returned = self._job.agent(case.given)
        except BaseException as error:  # noqa: BLE001 (whatever an agent raises is its own failure)
            return AgentFailure(error)
        if returned.__class__ in _PLAIN_TYPES or not inspect.isawaitable(returned):
            return returned
        return self._wait_for(await_agent(_return_itself, returned), slot)

    def _wait_for(self, work: Coroutine[Any, Any, T], slot: WorkerSlot) -> T:
        """What a coroutine gives in the event loop, which can be called off from outside."""
        try:
            slot.work = waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop has ended: after Ctrl-C nobody waits any more
            work.close()
            raise CancelledError from None
        return waiting.result()


def _return_itself(awaitable: Any) -> Any:
    return awaitable
