"""Means and intervals, checked against numbers from elsewhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.runs.statistics import (
    ClusterMoments,
    MeanEstimate,
    estimate_difference,
    estimate_moments,
    student_t,
)

VALUES = st.lists(st.floats(0, 1), max_size=40)


@pytest.mark.parametrize(
    ("degrees", "printed"),
    # The printed tables of Student's t, two-sided 95 %.
    [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (100, 1.984),
        (1_000_000, 1.960),
    ],
)
def test_student_t(degrees: int, printed: float) -> None:
    assert student_t(degrees) == pytest.approx(printed, rel=2e-3)


def sum_up(*clusters: list[float]) -> ClusterMoments:
    """As a database would."""
    sums = [(len(each), math.fsum(each)) for each in clusters]
    values = [value for each in clusters for value in each]
    return ClusterMoments(
        *(len(sums), len(values), math.fsum(values), math.fsum(s * s for _, s in sums)),
        *(math.fsum(n * s for n, s in sums), float(sum(n * n for n, _ in sums))),
        *(min(values, default=0.0), max(values, default=0.0)),
    )


@pytest.mark.parametrize(
    ("passed", "of", "low", "high"),
    # Newcombe 1998, table I, method 4: Wilson's with the correction, for 81 of 263 and so on. Ours
    # is a little wider, by Student's t and by one value less.
    [
        (81, 263, 0.2535, 0.3682),
        (15, 148, 0.0598, 0.1644),
        (0, 20, 0.0, 0.2005),
        (1, 29, 0.0018, 0.1963),
    ],
)
def test_the_interval_of_a_rate_is_wilsons_with_the_correction(
    passed: int, of: int, low: float, high: float
) -> None:
    found = estimate_moments(sum_up(*[[1.0]] * passed, *[[0.0]] * (of - passed)))
    assert found.low is not None
    assert found.high is not None
    assert found.mean == pytest.approx(passed / of)
    assert low - 0.01 <= found.low <= low + 1e-4
    assert high - 1e-4 <= found.high <= high + 0.03


def test_a_rate_has_an_interval_of_some_width_even_where_all_are_alike() -> None:
    for value in (0.0, 1.0):
        found = estimate_moments(sum_up(*[[value]] * 10))
        assert found.low is not None
        assert found.high is not None
        assert found.high - found.low > 0.2
        assert found.mean == value
    assert estimate_moments(sum_up(*[[3.0]] * 10), amounts=True) == MeanEstimate(3.0)


def test_traces_of_a_session_that_agree_say_no_more_than_one() -> None:
    one = estimate_moments(sum_up(*[[1.0]] * 8, *[[0.0]] * 8))
    five = estimate_moments(sum_up(*[[1.0] * 5] * 8, *[[0.0] * 5] * 8))
    assert (five.low, five.high) == pytest.approx((one.low, one.high))


@given(st.lists(st.lists(st.floats(-50, 50), min_size=1, max_size=5), min_size=2, max_size=20))
def test_a_mean_lies_in_its_interval_whatever_the_values(values: list[list[float]]) -> None:
    for found in (
        estimate_moments(sum_up(*values)),
        estimate_moments(sum_up(*[[abs(each) for each in some] for some in values]), amounts=True),
    ):
        if found.low is not None and found.high is not None:
            assert found.mean is not None
            assert found.low <= found.mean <= found.high


def test_scores_beyond_0_and_1_are_not_cut_there() -> None:
    found = estimate_moments(sum_up([50.0], [60.0], [70.0]))
    # mean 60, s = 10, t(2) = 4.303: 60 ± 24.84
    assert (found.low, found.high) == pytest.approx((35.16, 84.84), abs=0.01)
    lower = estimate_moments(sum_up([-50.0], [-60.0], [-70.0]))
    assert (lower.low, lower.high) == pytest.approx((-84.84, -35.16), abs=0.01)


def test_an_amount_is_surer_of_what_it_is_not_below() -> None:
    found = estimate_moments(sum_up([1.0], [2.0], [3.0], [10.0]), amounts=True)
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low > 0
    assert found.high - found.mean > found.mean - found.low


def test_a_difference_has_the_ends_of_both_sides() -> None:
    found = estimate_difference(MeanEstimate(0.5, 0.2, 0.6), MeanEstimate(0.9, 0.5, 0.95))
    # Zou and Donner: 0.4 - hypot(0.4, 0.1) and 0.4 + hypot(0.05, 0.3)
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, -0.01231, 0.70414), abs=1e-4)
    assert estimate_difference(MeanEstimate(0.5), MeanEstimate(0.9, 0.5, 0.95)).low is None
