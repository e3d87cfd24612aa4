"""Workers for an async agent: coroutines in one event loop.

Each case is one task, so that what the agent sets in its context stays there; at its end it
starts the next case of its slot.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from tallymark.scoring import EvalContext
from tallymark.suites.python_suites.agent_call import AgentFailure
from tallymark.suites.python_suites.crew import Crew, WorkerSlot

if TYPE_CHECKING:
    from tallymark.suites.python_suites.agent_call import AgentCall
    from tallymark.suites.python_suites.suite_run import SuiteJob


class TaskCrew(Crew):
    """As many tasks as may run at the same time."""

    def __init__(self, job: SuiteJob) -> None:
        super().__init__(job)
        self._abandoned: set[asyncio.Task[None]] = set()
        """The loop itself does not keep tasks alive."""

    def _start(self) -> None:
        for _ in range(self._at_once):
            self._hire()

    def _hire(self) -> None:
        slot = WorkerSlot()
        self._slots.add(slot)
        self._begin(slot)

    def _begin(self, slot: WorkerSlot) -> None:
        case = self._take(slot)
        if case is not None:
            work = self._work(slot, case)
            slot.work = asyncio.Task(work, loop=self._loop, context=case.context)

    def _leave(self, slot: WorkerSlot) -> None:
        super()._leave(slot)
        if isinstance(slot.work, asyncio.Task):
            self._abandoned.add(slot.work)
            slot.work.add_done_callback(self._abandoned.discard)

    async def _work(self, slot: WorkerSlot, case: AgentCall) -> None:
        try:
            returned = await await_agent(self._job.agent, case.given)
            if not slot.take_claim():
                return
            found = case.read_return(returned)
            if isinstance(found, EvalContext):
                plan = case.plan
                scores = plan.scores(found) if plan.inline else await plan.wait_for_scores(found)
                found = case.judge_scores(found.trace, scores)
            self._tell(case, found)
            self._begin(slot)
        except Exception as error:  # noqa: BLE001 (not the agent's error: it stops the run)
            self._break(error)


async def await_agent(agent: Any, given: Any) -> object:
    """What the awaited agent returns or raises; only real cancellation and Ctrl-C pass through."""
    try:
        return await agent(given)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return AgentFailure(error)  # the agent's own doing: nobody cancelled this task
    except BaseException as error:  # whatever an agent raises is its own failure
        if isinstance(error, KeyboardInterrupt) and _is_main_thread():
            raise
        return AgentFailure(error)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
