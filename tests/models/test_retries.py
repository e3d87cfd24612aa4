from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.models.model_conformance import request
from tests.models.virtual_time import now, pass_time, run

from tallymark.errors import ModelError
from tallymark.models import Answer, Pace, Request, answer_with_retries
from tallymark.models.retries import LONGEST_PAUSE, RequestOutcome, run_within

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


async def slow(seconds: float, trail: list[str] | None = None) -> str:
    try:
        await asyncio.sleep(seconds)
        await asyncio.sleep(seconds)
    finally:
        if trail is not None:
            trail.append(f"cleaned up at {now():g}")
    return "done"


async def instant() -> str:
    return "done"


async def failing(seconds: float) -> str:
    if seconds:
        await asyncio.sleep(seconds)
    raise KeyError("mine")


def test_work_that_is_done_at_once_sets_no_timer() -> None:
    async def timers() -> int:
        assert await run_within(60, instant()) == "done"
        return len(asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]

    assert run(timers()) == 0


def test_work_in_time_gives_its_result() -> None:
    assert run(run_within(10, slow(4))) == "done"


def test_work_that_takes_too_long_is_stopped_and_cleans_up() -> None:
    trail: list[str] = []
    with pytest.raises(TimeoutError):
        run(run_within(5, slow(4, trail)))
    assert trail == ["cleaned up at 5"]


@pytest.mark.parametrize("seconds", [0, 1])
def test_what_the_work_raises_comes_through(seconds: float) -> None:
    with pytest.raises(KeyError, match="mine"):
        run(run_within(10, failing(seconds)))


def test_being_cancelled_from_outside_is_not_a_timeout() -> None:
    trail: list[str] = []

    async def cancelled() -> None:
        task = asyncio.create_task(run_within(10, slow(4, trail)))
        await asyncio.sleep(1)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        run(cancelled())
    assert trail == ["cleaned up at 1"]


async def answered(pace: Pace, outcome: RequestOutcome = "success", seconds: float = 1.0) -> None:
    async with pace:
        await asyncio.sleep(seconds)
        pace.feed(outcome)


async def active_each_second(pace: Pace, requests: int, seconds: int) -> list[int]:
    """How many requests of one second each are on their way, second by second."""
    tasks = [asyncio.create_task(answered(pace)) for _ in range(requests)]
    counts = []
    await asyncio.sleep(0.5)
    for _ in range(seconds):
        counts.append(pace.active)
        await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return counts


def test_it_starts_slowly_and_doubles_up_to_the_limit() -> None:
    assert run(active_each_second(Pace(20, start=1), 200, 7)) == [1, 2, 4, 8, 16, 20, 20]


@pytest.mark.parametrize(("limit", "start", "expected"), [(3, 10, 3), (100, 10, 10), (1, 1, 1)])
def test_the_start_is_within_the_limit(limit: int, start: int, expected: int) -> None:
    assert Pace(limit, start=start).window == expected


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Pace(limit)


def test_it_does_not_grow_when_nobody_waits() -> None:
    async def one_after_another() -> int:
        pace = Pace(100, start=5)
        for _ in range(50):
            await answered(pace)
        return pace.window

    assert run(one_after_another()) == 5


@pytest.mark.parametrize(
    ("latency", "start", "expected"), [(0.02, 8, 14), (2.0, 8, 16), (0.02, 16, 16)]
)
def test_a_loop_that_lags_has_fewer_on_their_way_unless_answers_take_long(
    latency: float, start: int, expected: int
) -> None:
    async def lag() -> int:
        pace = Pace(16, start=start)
        pace.window = 16
        async with pace:
            pace.feed("success", latency=latency)
            await asyncio.sleep(0)
            pass_time(0.02)
            await asyncio.sleep(0.001)
        return pace.window

    assert run(lag()) == expected


def test_it_does_not_grow_while_the_loop_lags() -> None:
    async def lag() -> tuple[int, int]:
        pace = Pace(16, start=1)
        async with pace:
            pace.feed("success", latency=0.02)
            grown = pace.window
            await asyncio.sleep(0)
            pass_time(0.02)
            await asyncio.sleep(0.001)
        before = pace.window
        async with pace:
            pace.feed("success")
        return grown, pace.window - before

    assert run(lag()) == (2, 0)


def test_one_throttled_answer_halves_it() -> None:
    async def throttled() -> int:
        pace = Pace(16, start=16)
        await answered(pace, "throttled")
        return pace.window

    assert run(throttled()) == 8


def test_a_burst_of_throttled_answers_halves_it_once() -> None:
    async def burst() -> int:
        pace = Pace(16, start=16)
        await asyncio.gather(*(answered(pace, "throttled") for _ in range(16)))
        return pace.window

    assert run(burst()) == 8


def test_the_next_burst_halves_it_again() -> None:
    async def bursts() -> list[int]:
        pace, windows = Pace(16, start=16), []
        for _ in range(6):
            await asyncio.gather(*(answered(pace, "throttled") for _ in range(pace.window)))
            windows.append(pace.window)
        return windows

    assert run(bursts()) == [8, 4, 2, 1, 1, 1]


def test_after_a_throttled_answer_it_grows_by_one_a_round() -> None:
    async def recovering() -> list[int]:
        pace = Pace(64, start=16)
        await answered(pace, "throttled")
        return await active_each_second(pace, 200, 4)

    assert run(recovering()) == [8, 9, 10, 11]


def test_other_failures_do_not_change_it() -> None:
    async def failing() -> int:
        pace = Pace(16, start=8)
        await asyncio.gather(*(answered(pace, "failed") for _ in range(20)))
        return pace.window

    assert run(failing()) == 8


def test_retry_after_holds_all_requests_until_then() -> None:
    async def paused() -> list[float]:
        pace, begun = Pace(10), []

        async def ask() -> None:
            async with pace:
                begun.append(now())

        async with pace:
            pace.feed("throttled", retry_after=30)
        await asyncio.sleep(1)
        await asyncio.gather(*(ask() for _ in range(3)))
        return begun

    assert run(paused()) == [30.0, 30.0, 30.0]


def test_the_longest_of_several_pauses_counts() -> None:
    async def paused() -> float:
        pace = Pace(10)
        async with pace:
            for seconds in (20.0, 50.0, 10.0):
                pace.feed("throttled", retry_after=seconds)
        async with pace:
            return now()

    assert run(paused()) == 50.0


def test_who_asks_for_more_than_the_longest_pause_is_not_waited_for() -> None:
    async def not_paused() -> float:
        pace = Pace(10)
        async with pace:
            pace.feed("throttled", retry_after=LONGEST_PAUSE + 1)
        async with pace:
            return now()

    assert run(not_paused()) == 0.0


def test_requests_go_in_the_order_they_came() -> None:
    async def queued() -> list[int]:
        pace, order = Pace(1), []

        async def ask(number: int) -> None:
            async with pace:
                order.append(number)
                await asyncio.sleep(1)

        await asyncio.gather(*(ask(number) for number in range(5)))
        return order

    assert run(queued()) == [0, 1, 2, 3, 4]


def test_a_cancelled_request_gives_its_place_back() -> None:
    async def cancelled() -> int:
        pace = Pace(1)
        holding = asyncio.create_task(answered(pace))
        waiting = [asyncio.create_task(answered(pace)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for task in (holding, waiting[0]):
            task.cancel()
        await waiting[1]
        return pace.active

    assert run(cancelled()) == 0


def test_a_request_cancelled_as_its_place_comes_gives_it_on() -> None:
    async def cancelled() -> tuple[int, bool]:
        pace = Pace(1)
        async with pace:
            first = asyncio.create_task(answered(pace))
            second = asyncio.create_task(answered(pace))
            await asyncio.sleep(0)
        first.cancel()  # its place was given a moment ago, and it has not woken yet
        await asyncio.gather(first, return_exceptions=True)
        await second
        return pace.active, first.cancelled()

    assert run(cancelled()) == (0, True)


def test_an_error_inside_gives_the_place_back() -> None:
    async def failing() -> int:
        pace = Pace(1)
        with pytest.raises(ZeroDivisionError):
            async with pace:
                raise ZeroDivisionError
        return pace.active

    assert run(failing()) == 0
