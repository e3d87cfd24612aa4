from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.test_left_behind import until_nothing_hangs

from tallymark import left_behind
from tallymark.scoring import EvalContext, Scorer, scorer_calls
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

CTX = EvalContext(Trace())
SECONDS = 30
"""How long a test waits for what must happen; far longer than it takes."""


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a blocking scorer waits for; opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


def _waiting(gate: threading.Event) -> Scorer:
    def wait(ctx: EvalContext) -> bool:
        return gate.wait(SECONDS)

    return Scorer(wait, name="wait")


def test_a_blocking_scorer_does_not_stop_the_loop(gate: threading.Event) -> None:
    async def main() -> float | None:
        blocked = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        gate.set()  # only a loop that still runs gets here
        return (await blocked).value

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == 1.0


def test_a_scorer_that_hangs_is_abandoned_with_an_error(gate: threading.Event) -> None:
    score = asyncio.run(_waiting(gate).evaluate(CTX, timeout=0.01))
    assert (score.value, score.error) == (None, "wait did not finish in 0.01 s")


def test_hanging_calls_do_not_take_the_places_of_others(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    quick = Scorer(lambda ctx: 0.5, name="quick")

    async def main() -> list[str | float | None]:
        stuck = [_waiting(gate).evaluate(CTX, timeout=0.01) for _ in range(3)]
        scores = await asyncio.gather(*stuck, quick.evaluate(CTX, timeout=SECONDS))
        return [score.error or score.value for score in scores]

    assert asyncio.run(main()) == ["wait did not finish in 0.01 s"] * 3 + [0.5]


def test_waiting_for_a_free_thread_does_not_count_as_the_scorers_time(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    quick = Scorer(lambda ctx: 0.5, name="quick")

    async def main() -> float | None:
        first = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        second = asyncio.create_task(quick.evaluate(CTX, timeout=0.5))
        done, _ = await asyncio.wait((second,), timeout=0.6)
        assert not done
        gate.set()
        await first
        return (await second).value

    assert asyncio.run(main()) == 0.5


def test_a_scorer_with_too_many_hanging_calls_is_not_called_until_they_end(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_behind, "MOST_HANGING", 2)
    scorer = _waiting(gate)

    async def errors() -> list[str | None]:
        return [(await scorer.evaluate(CTX, timeout=0.01)).error for _ in range(3)]

    late = "wait did not finish in 0.01 s"
    assert asyncio.run(errors()) == [late, late, "wait was not called: 2 calls of it hang"]
    gate.set()
    until_nothing_hangs()
    assert asyncio.run(scorer.evaluate(CTX)).value == 1.0


def test_a_cancelled_caller_leaves_at_once_and_frees_the_place(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer_calls, "CALLS_AT_ONCE", 1)
    started = threading.Event()

    def wait(ctx: EvalContext) -> bool:
        started.set()
        return gate.wait(SECONDS)

    async def main() -> float | None:
        running = asyncio.create_task(Scorer(wait, name="wait").evaluate(CTX))
        queued = asyncio.create_task(_waiting(gate).evaluate(CTX))
        await asyncio.sleep(0)
        await asyncio.to_thread(started.wait, SECONDS)
        for task in (queued, running):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return (await Scorer(lambda ctx: 0.5, name="next").evaluate(CTX)).value

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == 0.5


def test_a_scorer_in_a_thread_sees_the_callers_context_variables() -> None:
    request = contextvars.ContextVar("request", default=0.0)
    scorer = Scorer(lambda ctx: request.get(), name="request")

    async def main() -> float | None:
        request.set(0.75)
        return (await scorer.evaluate(CTX)).value

    assert asyncio.run(main()) == 0.75


def test_a_hanging_scorer_does_not_keep_the_program_from_ending() -> None:
    program = (
        "import asyncio, threading\n"
        "from tallymark.scoring import EvalContext, Scorer\n"
        "from tallymark.traces import Trace\n"
        "s = Scorer(lambda ctx: threading.Event().wait(), name='hang')\n"
        "print(asyncio.run(s.evaluate(EvalContext(Trace()), timeout=0.01)).error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "hang did not finish in 0.01 s\n"
