from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.models.model_conformance import request
from tests.models.virtual_time import now, run

from tallymark.errors import ModelError
from tallymark.models import Answer, Pace, Request, answer_with_retries

BUSY = ModelError("busy", retryable=True, throttled=True)
LATER = ModelError("later", retryable=True, throttled=True, retry_after=60)
DROPPED = ModelError("dropped", hint="try a cable", retryable=True)
REFUSED = ModelError("refused")
MUCH_LATER = ModelError("tomorrow", retryable=True, throttled=True, retry_after=86_400)


class Scripted:
    """A model that fails as told, then answers; it notes when it was asked."""

    name = "scripted"

    def __init__(self, *failures: ModelError, seconds: float = 0.0) -> None:
        self._failures = list(failures)
        self._seconds = seconds
        self.asked: list[float] = []

    async def answer(self, request: Request) -> Answer:
        self.asked.append(now())
        await asyncio.sleep(self._seconds)
        if self._failures:
            raise self._failures.pop(0)
        return Answer(output="yes", latency=0.0)

    async def close(self) -> None:
        pass


def outcome(model: Scripted, pace: Pace | None = None, **options: float) -> tuple[str, int]:
    async def asking() -> tuple[str, int]:
        tries = int(options.get("tries", 5))
        answer, used = await answer_with_retries(
            model, request("x"), pace or Pace(4), tries=tries, timeout=options.get("timeout")
        )
        return answer.output, used

    return run(asking())


@pytest.mark.parametrize(
    ("failures", "tries"), [([], 1), ([BUSY], 2), ([DROPPED, BUSY, LATER], 4), ([LATER] * 4, 5)]
)
def test_it_asks_until_there_is_an_answer(failures: list[ModelError], tries: int) -> None:
    assert outcome(Scripted(*failures)) == ("yes", tries)


def test_the_last_error_says_how_often_was_asked() -> None:
    model = Scripted(DROPPED, DROPPED, DROPPED)
    with pytest.raises(ModelError, match="dropped; try a cable; tried 3 times") as caught:
        outcome(model, tries=3)
    assert caught.value.retryable
    assert len(model.asked) == 3


def test_a_refusal_is_not_asked_again() -> None:
    model = Scripted(REFUSED)
    with pytest.raises(ModelError, match=r"^refused$"):
        outcome(model)
    assert len(model.asked) == 1


def test_who_says_to_come_back_tomorrow_is_not_asked_again() -> None:
    model = Scripted(MUCH_LATER)
    with pytest.raises(ModelError, match="tomorrow; it asks to wait 86,400 s, which is too long"):
        outcome(model)
    assert len(model.asked) == 1


def test_waits_double_with_some_chance() -> None:
    model = Scripted(*[DROPPED] * 4)
    outcome(model)
    waits = [later - earlier for earlier, later in zip(model.asked, model.asked[1:], strict=False)]
    for wait, longest in zip(waits, (0.5, 1, 2, 4), strict=True):
        assert longest / 2 <= wait <= longest


def test_the_same_seed_gives_the_same_waits() -> None:
    def asked(seed: int) -> list[float]:
        model = Scripted(DROPPED, DROPPED)
        outcome(model, Pace(4, seed=seed))
        return model.asked

    assert asked(1) == asked(1) != asked(2)


def test_retry_after_is_honoured() -> None:
    model = Scripted(LATER)
    outcome(model)
    assert 60 <= model.asked[1] <= 66


def test_a_retry_after_of_nothing_still_waits() -> None:
    model = Scripted(ModelError("now", retryable=True, throttled=True, retry_after=0.0))
    outcome(model)
    assert model.asked[1] > 0


def test_each_try_has_its_own_time_limit() -> None:
    model = Scripted(seconds=10)
    with pytest.raises(ModelError, match=r"scripted did not answer in 3 s; .*; tried 2 times"):
        outcome(model, tries=2, timeout=3)
    assert len(model.asked) == 2


def test_waiting_for_a_slot_is_not_part_of_the_time_limit() -> None:
    async def queued() -> int:
        model, pace = Scripted(seconds=2), Pace(1)
        results = await asyncio.gather(
            *(answer_with_retries(model, request("x"), pace, timeout=3) for _ in range(5))
        )
        return max(tries for _, tries in results)

    assert run(queued()) == 1


def test_the_slot_is_free_between_tries() -> None:
    async def two() -> list[float]:
        waiting, other, pace = Scripted(DROPPED), Scripted(), Pace(1)
        await asyncio.gather(
            *(answer_with_retries(model, request("x"), pace) for model in (waiting, other))
        )
        return other.asked

    assert run(two()) == [0.0]


@pytest.mark.parametrize(
    ("failure", "window"), [(BUSY, lambda full: full // 2), (DROPPED, lambda full: full)]
)
def test_only_being_told_to_slow_down_slows_the_pace(
    failure: ModelError, window: Callable[[int], int]
) -> None:
    pace = Pace(8, start=8)
    outcome(Scripted(failure), pace)
    assert pace.window == window(8)


@pytest.mark.parametrize("tries", [0, -1])
def test_no_tries_at_all_are_refused(tries: int) -> None:
    with pytest.raises(ValueError, match="tries must be at least 1"):
        outcome(Scripted(), tries=tries)
