from __future__ import annotations

import asyncio

import pytest
from tests.models.virtual_time import now, pass_time, run

from tallymark.models import Pace
from tallymark.models.pace import LONGEST_PAUSE, RequestOutcome


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
