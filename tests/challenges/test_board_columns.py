"""Boards from columns: totals as `breakdown` gives row by row, and the best row of each agent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.board_columns import find_shown_scores, find_totals, rank_by_score
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
def test_totals_are_those_of_single_rows(
    weights: tuple[float, ...], rows: list[tuple[float, ...]]
) -> None:
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


BOARD_SCORES = st.sampled_from([float("nan"), 0.0, -0.0, 1.0, 2.0, -3.5])
BOARD_ROWS = st.lists(st.tuples(st.integers(0, 3), BOARD_SCORES, st.booleans()), max_size=12)


@given(BOARD_ROWS, st.sets(st.integers(0, 3)))
def test_the_order_of_a_board_is_that_of_sorting_by_hand(
    rows: list[tuple[int, float, bool]], absent: set[int]
) -> None:
    best: dict[int, tuple[bool, float, int]] = {}
    for row, (agent, score, ranks) in enumerate(rows):
        missing = score != score  # noqa: PLR0124 (NaN)
        place = (missing, 0.0 if missing else -score, row)
        if ranks and agent not in absent and (agent not in best or place < best[agent]):
            best[agent] = place
    found = rank_by_score(
        np.array([score for _, score, _ in rows], dtype=np.float64),
        np.array([agent for agent, _, _ in rows], dtype=np.int32),
        4,
        absent=np.array(sorted(absent), dtype=np.intp),
        left_out=np.array([not ranks for _, _, ranks in rows], dtype=np.bool_),
    )
    assert found.tolist() == [row for _, _, row in sorted(best.values())]
