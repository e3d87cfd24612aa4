"""Scoring many traces at the same time, for scorers that wait or may block: an event loop, threads.

Handing a call to a thread and back costs more than most scorers. So one thread makes call after
call, and more threads come when it is found at the same call twice. A call that is late is left
behind with its thread, and another thread takes its place.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Self

from tallymark.abandonable_calls import MOST_HANGING
from tallymark.event_loops import LoopThread
from tallymark.scoring import EvalContext, Score, Scorer, to_score
from tallymark.scoring.scorer_calls import CALLS_AT_ONCE, evaluate_all, wait_for_return
from tallymark.text import format_number
from tallymark.traces import Trace

TRACES_AT_ONCE = 32
_FIRST_LOOK = 0.001
_RAREST_LOOK = 0.05
"""Seconds between two looks at whether more threads would help."""


def score_in_loop(
    scorers: Sequence[Scorer], contexts: Iterable[EvalContext], timeout: float | None
) -> Iterator[tuple[Trace, list[Score]]]:
    """The scores of each trace, in the order of the traces."""
    waiting: deque[_ScoredTrace] = deque()
    with LoopThread() as loop, _ScorerThreads(loop, timeout) as threads:
        for ctx in contexts:
            waiting.append(_ScoredTrace(scorers, ctx, threads))
            # Only the oldest is waited for: so results keep their order, and memory its bound.
            if len(waiting) >= TRACES_AT_ONCE:
                yield waiting.popleft().wait()
        while waiting:
            yield waiting.popleft().wait()


class _ScoredTrace:
    """A trace whose scores are on their way."""

    __slots__ = ("_calls", "_ctx", "_scorers", "_tasks", "_threads")

    def __init__(
        self, scorers: Sequence[Scorer], ctx: EvalContext, threads: _ScorerThreads
    ) -> None:
        self._scorers = scorers
        self._ctx = ctx
        self._threads = threads
        waits = [each for each in scorers if each.is_async]
        self._tasks: Future[list[Score]] | None = (
            threads.loop.submit(evaluate_all(waits, ctx, timeout=threads.seconds))
            if waits
            else None
        )
        self._calls = [threads.submit(each, ctx) for each in scorers if each.blocking]

    def wait(self) -> tuple[Trace, list[Score]]:
        """The trace and its scores, in the order of the scorers."""
        waited = iter(() if self._tasks is None else self._tasks.result())
        called = iter(self._calls)
        return self._ctx.trace, [
            next(waited)
            if each.is_async
            else self._threads.wait(next(called))
            if each.blocking
            else each.score(self._ctx)
            for each in self._scorers
        ]


class _Call:
    """One call of a scorer that may block."""

    __slots__ = ("ctx", "score", "scorer")

    def __init__(self, scorer: Scorer, ctx: EvalContext) -> None:
        self.scorer = scorer
        self.ctx = ctx
        self.score: Score | None = None


class _Worker:
    """A thread's place."""

    __slots__ = ("claim", "deadline", "seen")

    def __init__(self) -> None:
        self.claim: list[_Call] = []
        """Holds the call while it runs; the one that takes it out reports its score."""
        self.deadline = float("inf")
        self.seen: list[_Call] = []
        """The call at the last look."""

    def take_claim(self) -> bool:
        """Take the call out; False when the other side did so before."""
        try:
            self.claim.pop()
        except IndexError:
            return False
        return True


class _ScorerThreads:
    """Threads of one run and their watchdog, which the waiting caller runs."""

    def __init__(self, loop: LoopThread, seconds: float | None) -> None:
        self.loop = loop
        self.seconds = seconds
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._workers: set[_Worker] = set()
        self._left: Counter[Scorer] = Counter()
        """Calls that continue after their time limit."""
        self._awaited: _Call | None = None
        self._done = threading.Event()
        self._look_in = _FIRST_LOOK
        self._context = copy_context()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Empty):
            while True:
                self._calls.get_nowait()
        for _worker in self._workers:
            self._calls.put(None)

    def submit(self, scorer: Scorer, ctx: EvalContext) -> _Call:
        """Have a call made."""
        call = _Call(scorer, ctx)
        self._calls.put(call)
        if not self._workers:
            self._hire()
        return call

    def wait(self, call: _Call) -> Score:
        """The score of a call, once it is there or its time is up."""
        self._awaited = call
        while True:
            self._done.clear()
            score = call.score  # read after that, or its coming might be missed
            if score is not None:
                return score
            if not self._done.wait(self._until_next_look()):
                self._look()

    def _until_next_look(self) -> float:
        now = time.monotonic()
        due = [worker.deadline - now for worker in self._workers if worker.claim]
        return max(0.0, min([self._look_in, *due]))

    def _look(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            call = next(iter(worker.claim.copy()), None)
            if call is not None and worker.deadline <= now and worker.take_claim():
                self._workers.discard(worker)
                self._left[call.scorer] += 1
                call.score = self._make_late(call.scorer)
                self._hire()
        workers = list(self._workers)
        room = 0 if self._calls.empty() else CALLS_AT_ONCE - len(workers)
        # One thread is enough for scorers that return at once; more slow each other down.
        if room and all(worker.claim and worker.claim == worker.seen for worker in workers):
            for _ in range(min(len(workers), room)):
                self._hire()
            self._look_in = _FIRST_LOOK
        else:
            self._look_in = min(2 * self._look_in, _RAREST_LOOK)
        for worker in workers:
            worker.seen = worker.claim.copy()

    def _make_late(self, scorer: Scorer) -> Score:
        late = Score.failed(f"{scorer.name} did not finish in {format_number(self.seconds)} s")
        return to_score(late, scorer)

    def _hire(self) -> None:
        worker = _Worker()
        self._workers.add(worker)
        # A daemon, so that a call that hangs does not keep Python from ending.
        threading.Thread(
            target=self._work, args=(worker,), name="tallymark-scorer", daemon=True
        ).start()

    def _work(self, worker: _Worker) -> None:
        seconds = float("inf") if self.seconds is None else self.seconds
        while (call := self._calls.get()) is not None:
            scorer = call.scorer
            worker.deadline = time.monotonic() + seconds
            worker.claim.append(call)
            score = self._context.copy().run(self._score, scorer, call.ctx)
            late = time.monotonic() > worker.deadline
            if not worker.take_claim():
                self._left[scorer] -= 1
                return
            call.score = self._make_late(scorer) if late else score
            if self._awaited is call:
                self._done.set()

    def _score(self, scorer: Scorer, ctx: EvalContext) -> Score:
        hanging = self._left[scorer]
        if hanging >= MOST_HANGING:
            error = f"{scorer.name} was not called: {hanging} calls of it hang"
            return to_score(Score.failed(error), scorer)
        raw = scorer.call(ctx)
        if not isinstance(raw, Score) and inspect.isawaitable(raw):
            raw = self.loop.submit(wait_for_return(scorer, raw, self.seconds)).result()
        return to_score(raw, scorer)
