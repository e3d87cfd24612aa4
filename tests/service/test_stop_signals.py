"""A signal ends what waits, once, whoever sets it and whenever."""

from __future__ import annotations

import asyncio
import threading
from typing import Literal

import pytest

from tallymark.service.stop_signals import StopReason, StopSignal


async def wait_for_ever(begun: threading.Event) -> Literal["finished"]:
    begun.set()
    await asyncio.Event().wait()
    return "finished"


@pytest.mark.parametrize(
    ("reason", "ending"), [("cancelled", "stopped"), ("shutdown", "stopped"), ("late", "late")]
)
def test_what_waits_is_ended_from_another_thread(reason: StopReason, ending: str) -> None:
    stop, begun = StopSignal(), threading.Event()

    def set_when_begun() -> None:
        begun.wait()
        stop.set(reason)

    thread = threading.Thread(target=set_when_begun)
    thread.start()
    assert asyncio.run(stop.run_until_set(wait_for_ever(begun))) == ending
    thread.join()
    stop.set("lost")
    assert stop.reason == reason


def test_a_signal_that_was_set_before_ends_it_at_once() -> None:
    stop = StopSignal()
    stop.set("cancelled")
    assert asyncio.run(stop.run_until_set(wait_for_ever(threading.Event()))) == "stopped"


def test_what_ends_by_itself_is_left_alone() -> None:
    async def work() -> Literal["budget"]:
        return "budget"

    stop = StopSignal()
    assert asyncio.run(stop.run_until_set(work())) == "budget"
    stop.set("shutdown")  # its loop is gone


def test_another_cancellation_is_not_taken_for_the_signal() -> None:
    async def cancelled() -> Literal["finished"]:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(StopSignal().run_until_set(cancelled()))
