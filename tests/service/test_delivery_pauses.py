"""Addresses that fail are left alone for a while, and tried again by one message."""

from __future__ import annotations

from tallymark.service import delivery_pauses
from tallymark.service.delivery_pauses import LONGEST_S, PROBE_S, DeliveryPauses


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pauses_grow_with_failures() -> None:
    clock = Clock()
    pauses, found = DeliveryPauses(clock), []
    for _ in range(12):
        assert pauses.begin("a") == 0.0
        pauses.end("a", accepted=False)
        found.append(pauses.begin("a"))
        clock.now += found[-1]
    assert found[:4] == [2, 4, 8, 16]
    assert found[-1] == LONGEST_S
    assert pauses.begin("b") == 0.0


def test_after_a_pause_one_message_tries_and_the_others_wait() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    pauses.end("a", accepted=False)
    clock.now += 2
    assert [pauses.begin("a") for _ in range(3)] == [0.0, PROBE_S, PROBE_S]
    pauses.end("a", accepted=True)
    assert [pauses.begin("a") for _ in range(3)] == [0.0, 0.0, 0.0]
    assert len(pauses) == 0


def test_a_message_that_never_ends_does_not_keep_others_waiting_for_ever() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    pauses.end("a", accepted=False)
    clock.now += 2
    assert [pauses.begin("a"), pauses.begin("a")] == [0.0, PROBE_S]
    clock.now += PROBE_S
    assert pauses.begin("a") == 0.0


def test_failures_that_overlap_count_each() -> None:
    clock = Clock()
    pauses = DeliveryPauses(clock)
    assert [pauses.begin("a"), pauses.begin("a")] == [0.0, 0.0]
    for _ in range(2):
        pauses.end("a", accepted=False)
    assert pauses.begin("a") == 4.0


def test_very_many_addresses_are_not_all_remembered() -> None:
    pauses = DeliveryPauses(Clock())
    for number in range(delivery_pauses._MOST_KNOWN + 5):
        pauses.end(number, accepted=False)
    assert len(pauses) == delivery_pauses._MOST_KNOWN
    assert pauses.begin(0) == 0.0
