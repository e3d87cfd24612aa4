"""Agents: what their head to head counts."""

from __future__ import annotations

import pytest

from tallymark.service.agents import compute_sign_test


@pytest.mark.parametrize(
    ("ahead", "behind", "expected"),
    [
        (0, 0, None),
        (1, 0, 1.0),
        (5, 0, 2 / 32),
        (6, 0, 2 / 64),
        (8, 1, 2 * (1 + 9) / 512),
        (3, 3, 1.0),
        (1, 8, 2 * (1 + 9) / 512),
    ],
)
def test_the_sign_test_counts_outcomes_as_one_would_by_hand(
    ahead: int, behind: int, expected: float | None
) -> None:
    assert compute_sign_test(ahead, behind) == expected
