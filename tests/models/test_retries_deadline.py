from __future__ import annotations

import asyncio

import pytest
from tests.models.virtual_time import now, run

from tallymark.models.retries import run_within


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
