"""Places that the luck of attempts allows."""

from __future__ import annotations

from tallymark.store.contests.figures import Tries
from tallymark.web.likely_places import find_likely_places


def make_tries(*scores: float) -> Tries:
    mean = sum(scores) / len(scores)
    return Tries(count=len(scores), mean=mean, squares=sum((each - mean) ** 2 for each in scores))


def test_who_overlaps_may_change_places_and_who_is_apart_may_not() -> None:
    found = find_likely_places(
        {
            "high": make_tries(900, 905, 895, 900),
            "near": make_tries(890, 910, 880, 900),
            "low": make_tries(100, 105, 95),
        }
    )
    assert {agent: (each.first, each.last) for agent, each in found.items()} == {
        "high": (1, 2),
        "near": (1, 2),
        "low": (3, 3),
    }


def test_few_tries_and_tries_that_are_all_alike_say_nothing() -> None:
    alike, few = make_tries(5, 5, 5, 5), make_tries(1, 9)
    assert find_likely_places({"alike": alike, "few": few, "fine": make_tries(1, 2, 3)}) == {}
