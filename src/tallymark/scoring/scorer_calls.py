"""Calling scorers that wait or block: with time limits, many at the same time.

Those that may block work in threads, so that async neighbours go on meanwhile. Unlike the pools of
the standard library, a call that hangs can be abandoned: it gives its place to the next one, and
its thread (a daemon) does not keep the program from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError
from tallymark.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tallymark.scoring.eval_context import EvalContext
    from tallymark.scoring.scorer import Scorer

CALLS_AT_ONCE = 32
"""Calls that run at the same time; more wait, and their time limit begins when they start."""
MOST_HANGING = 100
"""Abandoned calls of one scorer that may hang before it is no longer called."""
_abandoned_tasks: set[asyncio.Task[object]] = set()
"""Tasks that were cancelled for being late; the loop itself does not keep tasks alive."""


class ScorerCall:
    """One call of a scorer, on its way to a thread and back to the loop that waits for it."""

    __slots__ = ("abandoned", "future", "loop", "scorer", "started", "timer", "work")

    def __init__(self, scorer: Scorer, work: Callable[[], object]) -> None:
        self.scorer = scorer
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.started: float | None = None
        self.abandoned = False
        self.timer: asyncio.TimerHandle | None = None

    def answer(self, result: object) -> None:
        """Hand the result to the waiting loop, from any thread."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            # Futures belong to their loop: no other thread may set them.
            self.loop.call_soon_threadsafe(self.settle, result)

    def settle(self, result: object) -> None:
        """Hand over the result, in the loop's own thread; the first one counts."""
        if not self.future.done():
            self.future.set_result(result)


class ScorerThreads:
    """At most `at_once` threads that work, started when needed and kept for the next call."""

    def __init__(self, at_once: int = CALLS_AT_ONCE) -> None:
        self._at_once = at_once
        self._lock = Lock()
        self._jobs: SimpleQueue[ScorerCall] = SimpleQueue()
        self._threads = 0
        self._open = 0
        self._hanging: Counter[Scorer] = Counter()

    def submit(self, job: ScorerCall) -> None:
        """Run the job in a thread as soon as one is free."""
        with self._lock:
            hanging = self._hanging[job.scorer]
            if hanging < MOST_HANGING:
                self._open += 1
                self._jobs.put(job)
                self._staff()
                return
        job.settle(Score.failed(f"{job.scorer.name} was not called: {hanging} calls of it hang"))

    def abandon(self, job: ScorerCall) -> None:
        """Stop waiting for a job: its place is free for another."""
        with self._lock:
            if job.abandoned or job.work is _do_nothing:
                return
            job.abandoned = True
            self._open -= 1
            # One that waits in the queue is skipped there. One that runs keeps its thread, which
            # cannot be ended and is no longer counted, so another takes its place.
            if job.started is not None:
                self._hanging[job.scorer] += 1
                self._threads -= 1
                self._staff()

    def _staff(self) -> None:
        if self._threads < min(self._at_once, self._open):
            self._threads += 1
            Thread(target=self._run, name="tallymark-scorer", daemon=True).start()

    def _run(self) -> None:
        while self._do(self._jobs.get()):
            pass

    def _claim(self, job: ScorerCall) -> bool:
        with self._lock:
            if not job.abandoned:
                job.started = time.monotonic()
            return not job.abandoned

    def _do(self, job: ScorerCall) -> bool:
        """Do one job; False when it was abandoned meanwhile, so that its thread is not wanted."""
        if not self._claim(job):
            return True
        result = job.work()
        with self._lock:
            job.work = _do_nothing
            late = job.abandoned
            if late:
                self._hanging[job.scorer] -= 1
            else:
                self._open -= 1
        if not late:
            job.answer(result)
        return not late


def _do_nothing() -> None:
    """Stands in for the work of a finished job."""


async def call_in_thread(scorer: Scorer, ctx: EvalContext, seconds: float | None) -> object:
    """What the scorer returns when called in a thread, or a failed score when time is up."""
    copied = contextvars.copy_context()
    job = ScorerCall(scorer, lambda: copied.run(scorer.call, ctx))
    workers = _WORKERS[0]
    workers.submit(job)
    if seconds is not None:
        job.timer = job.loop.call_later(seconds, _expire_call, job, workers, seconds)
    try:
        return await job.future
    except asyncio.CancelledError:
        workers.abandon(job)
        raise
    finally:
        if job.timer is not None:
            job.timer.cancel()


def _expire_call(job: ScorerCall, workers: ScorerThreads, seconds: float) -> None:
    """When the limit has passed since the start, go on without the job; else look again later."""
    left = seconds if job.started is None else job.started + seconds - time.monotonic()
    if left > 0:
        job.timer = job.loop.call_later(left, _expire_call, job, workers, seconds)
    else:
        workers.abandon(job)
        job.settle(make_late_score(job.scorer, seconds))


def make_late_score(scorer: Scorer, seconds: float) -> Score:
    """The score of a scorer that did not finish."""
    return Score.failed(f"{scorer.name} did not finish in {seconds:g} s")


_WORKERS = [ScorerThreads()]
"""A list of one, so that a child of a fork can put its own there."""


def _replace_threads() -> None:
    _WORKERS[0] = ScorerThreads()


if hasattr(os, "register_at_fork"):  # threads do not survive a fork; not every system forks
    os.register_at_fork(after_in_child=_replace_threads)


async def evaluate_all(
    scorers: Sequence[Scorer],
    ctx: EvalContext,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 (the limit is each scorer's own)
) -> list[Score]:
    """Every scorer's score of one context, in their order; slow scorers run at the same time."""
    slow = [each for each in scorers if not each.inline]
    pending = [each.evaluate(ctx, timeout=timeout) for each in slow]
    waited = iter(
        await asyncio.gather(*pending) if len(pending) > 1 else [await p for p in pending]
    )
    return [await each.evaluate(ctx) if each.inline else next(waited) for each in scorers]


async def wait_for_return(
    scorer: Scorer, awaitable: Awaitable[object], seconds: float | None
) -> object:
    """What the awaitable gives, or a failed score when it raises or is late."""
    if seconds is None:
        return await _contain_failure(scorer, awaitable)
    task = asyncio.ensure_future(_contain_failure(scorer, awaitable))
    try:
        done, _ = await asyncio.wait((task,), timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if done:
        return task.result()
    # It is not waited for: a scorer that swallows its cancellation must not hold up the rest.
    task.cancel()
    _abandoned_tasks.add(task)
    task.add_done_callback(_abandoned_tasks.discard)
    return make_late_score(scorer, seconds)


async def _contain_failure(scorer: Scorer, awaitable: Awaitable[object]) -> object:
    try:
        return await awaitable
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return scorer.failure(error)  # the scorer's own doing: nobody cancelled this task
    except BaseException as error:  # noqa: BLE001 (whatever a scorer raises is its own failure)
        return scorer.failure(error)


def run_to_end(scorer: Scorer, awaitable: Awaitable[object]) -> object:
    """What the awaitable of an async scorer gives, for code that is not async."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait_for_return(scorer, awaitable, None))
    if isinstance(awaitable, Coroutine):
        awaitable.close()  # or Python warns that it was never awaited
    raise ScorerError(
        f"{scorer.name} is async and an event loop is running here",
        hint="use `await scorer.evaluate(ctx)` instead of `scorer.score(ctx)`",
    )
