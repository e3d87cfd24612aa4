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
from tallymark.scoring.workers import HANGING
from tallymark.suites.code.case import Raised
from tallymark.suites.code.crew import Crew, Slot
from tallymark.suites.code.task_crew import contained
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tallymark.suites.code.case import Case
    from tallymark.suites.code.job import Job

T = TypeVar("T")
_FIRST_LOOK = 0.001
_RAREST_LOOK = 0.05
"""Seconds between two looks at whether more threads would help."""
_PLAIN = frozenset({str, dict, Trace, type(None)})
"""Returns that are certainly not awaitable, told apart quickly."""


class ThreadCrew(Crew):
    """Threads, as many as the agent keeps busy."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._hanging: set[Slot] = set()
        self._look_in = _FIRST_LOOK

    def _start(self) -> None:
        self._hire()

    def _hire(self) -> None:
        slot = Slot()
        self._slots.add(slot)
        work = self._context.copy().run
        # Daemons, so that an agent that hangs does not keep Python from ending.
        threading.Thread(
            target=work, args=(self._work, slot), name="tallymark-agent", daemon=True
        ).start()

    def _until_next_look(self) -> float:
        look = super()._until_next_look()
        return look if self._full() else min(look, self._look_in)

    def _full(self) -> bool:
        return len(self._slots) >= self._at_once or not self._numbers

    def _look(self) -> None:
        super()._look()
        if self._full():
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

    def _leave(self, slot: Slot) -> None:
        super()._leave(slot)
        self._hanging.add(slot)

    def _work(self, slot: Slot) -> None:
        try:
            while (case := self._take(slot)) is not None:
                if not self._did(case, slot):
                    return
        except CancelledError:
            self._hanging.discard(slot)  # called off while it waited for the event loop
        except Exception as error:  # noqa: BLE001 (not the agent's error: it stops the run)
            self._break(error)

    def _did(self, case: Case, slot: Slot) -> bool:
        """Do one case; False when nobody waited for it, so that its thread is not wanted."""
        if len(self._hanging) >= HANGING:
            slot.claimed()
            self._tell(case, case.failed(f"the agent was not called: {HANGING} calls of it hang"))
            return True
        returned = case.context.run(self._call, case, slot)
        if not slot.claimed():
            self._hanging.discard(slot)
            return False
        found = case.answered(returned)
        if isinstance(found, EvalContext):
            plan = case.plan
            scores = (
                plan.scores(found) if plan.inline else self._waited(plan.waited_scores(found), slot)
            )
            found = case.judged(found.trace, scores)
        self._tell(case, found)
        return True

    def _call(self, case: Case, slot: Slot) -> object:
        try:
            returned = self._job.agent(case.given)
        except BaseException as error:  # noqa: BLE001 (whatever an agent raises is its own failure)
            return Raised(error)
        if returned.__class__ in _PLAIN or not inspect.isawaitable(returned):
            return returned
        return self._waited(contained(_itself, returned), slot)

    def _waited(self, work: Coroutine[Any, Any, T], slot: Slot) -> T:
        """What a coroutine gives in the event loop, which can be called off from outside."""
        slot.work = waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        return waiting.result()


def _itself(awaitable: Any) -> Any:
    return awaitable
