"""pass@k and pass^k against counting every choice of k tries."""

from __future__ import annotations

from itertools import combinations

import pytest

from tallymark.runs.record import CaseResult
from tallymark.runs.repeats import mean_repeats, pass_all_k, pass_at_k, summarise_repeats
from tallymark.runs.tally import Counts, Tally


@pytest.mark.parametrize(("tries", "passed"), [(1, 0), (1, 1), (5, 0), (5, 2), (5, 5), (8, 3)])
def test_they_are_the_shares_of_all_choices(tries: int, passed: int) -> None:
    outcomes = [True] * passed + [False] * (tries - passed)
    for k in range(1, tries + 1):
        choices = list(combinations(outcomes, k))
        assert pass_at_k(tries, passed, k) == pytest.approx(sum(map(any, choices)) / len(choices))
        assert pass_all_k(tries, passed, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize(
    ("tries", "passed", "k", "at", "every"),
    [(5, 2, 2, 0.7, 0.1), (10, 5, 3, 11 / 12, 1 / 12), (200, 100, 1, 0.5, 0.5)],
)
def test_known_values(tries: int, passed: int, k: int, at: float, every: float) -> None:
    assert pass_at_k(tries, passed, k) == pytest.approx(at)
    assert pass_all_k(tries, passed, k) == pytest.approx(every)


def counts(passed: int, ran: int) -> Counts:
    results = [
        CaseResult(case="a", epoch=epoch, status="passed" if epoch < passed else "failed")
        for epoch in range(ran)
    ]
    return Tally(results).all


def test_a_case_that_never_ran_tells_nothing() -> None:
    assert summarise_repeats(counts(0, 0)) is None
    assert mean_repeats([]) is None


def test_k_goes_up_to_the_tries_but_not_beyond_ten() -> None:
    few, many = summarise_repeats(counts(1, 3)), summarise_repeats(counts(1, 40))
    assert few is not None
    assert many is not None
    assert list(few.pass_at) == [1, 2, 3]
    assert list(many.pass_all) == list(range(1, 11))


def test_the_mean_over_cases_stops_at_the_k_that_all_reach() -> None:
    found = mean_repeats(
        filter(None, (summarise_repeats(counts(2, 2)), summarise_repeats(counts(1, 4))))
    )
    assert found is not None
    assert found.mean == 0.625
    assert found.pass_at == {1: 0.625, 2: 0.75}
    assert found.pass_all == {1: 0.625, 2: 0.5}
