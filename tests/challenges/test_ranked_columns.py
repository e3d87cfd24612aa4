"""The best row of each agent, in the order of boards."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.ranked_columns import rank_by_score

SCORES = st.sampled_from([float("nan"), 0.0, -0.0, 1.0, 2.0, -3.5])
ROWS = st.lists(st.tuples(st.integers(0, 3), SCORES, st.booleans()), max_size=12)


@given(ROWS, st.sets(st.integers(0, 3)))
def test_as_sorted_by_hand(rows: list[tuple[int, float, bool]], absent: set[int]) -> None:
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
