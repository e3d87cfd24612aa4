"""Totals of columns are those of `breakdown` row by row, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.dimension_columns import find_shown_scores, find_totals
from tallymark.dimensions import breakdown, dims

KEYS = ("correctness", "speed", "methodology")
WEIGHTS = st.sampled_from(
    [(0.5, 0.3, 0.2), (0.15, 0.15, 0.7), (0.333, 0.333, 0.334), (0.25, 0.25, 0.5)]
)
SCORES = st.one_of(
    st.integers(0, 1000).map(float),
    st.integers(0, 10_000).map(lambda tenths: tenths / 10),
    st.floats(-50, 1050),
)
ROWS = st.lists(st.tuples(SCORES, SCORES, SCORES), min_size=1, max_size=6)


@given(WEIGHTS, ROWS)
def test_as_one_by_one(weights: tuple[float, ...], rows: list[tuple[float, ...]]) -> None:
    weighted = dims(dict(zip(KEYS, weights, strict=True)))
    columns = {key: np.array(each) for key, each in zip(KEYS, zip(*rows, strict=True), strict=True)}
    single = [breakdown(weighted, dict(zip(KEYS, row, strict=True))) for row in rows]
    totals = find_totals(weighted, columns, len(rows))
    assert totals.tolist() == [float(each.total) for each in single]
    shown = find_shown_scores(weighted, columns, len(rows))
    assert shown.tolist() == [each.score for each in single]


@pytest.mark.parametrize("missing", [math.nan, np.array([math.nan, 5.0])])
def test_a_score_that_is_missing_leaves_no_total(missing: object) -> None:
    weighted = dims(dict.fromkeys(KEYS[:2], 0.5))
    columns = {KEYS[0]: np.array([700.0, 700.0]), KEYS[1]: missing}
    assert math.isnan(find_totals(weighted, columns, 2)[0])  # type: ignore[arg-type]
    assert math.isnan(find_shown_scores(weighted, columns, 2)[0])  # type: ignore[arg-type]


def test_one_number_for_all_rows() -> None:
    weighted = dims(dict.fromkeys(KEYS[:2], 0.5))
    columns = {KEYS[0]: 700.0, KEYS[1]: 300.0}
    assert find_shown_scores(weighted, columns, 3).tolist() == [500.0] * 3
