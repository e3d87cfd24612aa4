"""Means and intervals, checked against numbers from elsewhere."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.runs.statistics import MeanEstimate, estimate_clusters, student_t

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


def spread(values: list[float]) -> MeanEstimate:
    return estimate_clusters([(1, value) for value in values])


@pytest.mark.parametrize(
    ("values", "mean", "low", "high"),
    [
        ([], None, None, None),
        ([0.5], 0.5, None, None),
        ([1.0, 1.0, 1.0], 1.0, 1.0, 1.0),
        ([0.0, 1.0], 0.5, 0.0, 1.0),
        # mean 0.5, s = 0.1581, t(4) = 2.776: 0.5 ± 0.1963
        ([0.3, 0.4, 0.5, 0.6, 0.7], 0.5, 0.3037, 0.6963),
    ],
)
def test_an_interval(
    values: list[float], mean: float | None, low: float | None, high: float | None
) -> None:
    found = spread(values)
    for got, wanted in ((found.mean, mean), (found.low, low), (found.high, high)):
        assert got == (None if wanted is None else pytest.approx(wanted, abs=1e-3))


def test_epochs_that_agree_say_no_more_than_one_of_them() -> None:
    once = estimate_clusters([(1, 0.0), (1, 1.0), (1, 1.0)])
    five_times = estimate_clusters([(5, 0.0), (5, 5.0), (5, 5.0)])
    assert (five_times.low, five_times.high) == pytest.approx((once.low, once.high))


def test_epochs_that_differ_say_more() -> None:
    once = estimate_clusters([(1, 0.0), (1, 1.0), (1, 0.0), (1, 1.0)])
    twice = estimate_clusters([(2, 1.0)] * 4)
    assert once.low is not None
    assert twice.low is not None
    assert twice.low > once.low


@pytest.mark.parametrize(
    ("clusters", "mean", "low", "high"),
    # statsmodels 0.15.0: OLS on a constant, cov_type="cluster", use_t=True; its conf_int().
    [
        (
            [[0.2, 0.4, 0.3], [0.9, 0.8, 1.0], [0.5, 0.6, 0.4], [0.7, 0.7, 0.1], [0.3, 0.5, 0.4]],
            0.52,
            0.23685704,
            0.80314296,
        ),
        (
            [[0.2, 0.4, 0.3], [0.9], [0.5, 0.6], [0.7, 0.7, 0.1, 0.9], [0.3, 0.5]],
            0.50833333,
            0.28695991,
            0.72970676,
        ),
    ],
    ids=["equal", "of several sizes"],
)
def test_the_interval_of_clusters_is_that_of_statsmodels(
    clusters: list[list[float]], mean: float, low: float, high: float
) -> None:
    found = estimate_clusters((len(each), sum(each)) for each in clusters)
    assert found.mean == pytest.approx(mean)
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-4)


def test_an_interval_ends_at_0_and_1() -> None:
    found = estimate_clusters([(1, 0.0), (1, 1.0), (1, 1.0)])
    assert (found.low, found.high) == (0.0, 1.0)


@given(VALUES)
def test_the_mean_lies_in_its_interval_and_in_its_values(values: list[float]) -> None:
    found = spread(values)
    if found.low is None or found.mean is None or found.high is None:
        assert len(values) < 2
        return
    assert 0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1
    assert min(values) - 1e-12 <= found.mean <= max(values) + 1e-12


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_the_error_is_the_usual_one(values: list[float]) -> None:
    found = spread(values)
    mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))
    reach = student_t(len(values) - 1) * error
    assert found.low == pytest.approx(max(0.0, mean - reach), abs=1e-9)
    assert found.high == pytest.approx(min(1.0, mean + reach), abs=1e-9)
