from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.scorers.sequence_distance import levenshtein, longest_common

FEW = st.text("abß🎉", max_size=80)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("intention", "execution", 5),
        ("abc", "abc", 0),
        ("ab", "ba", 2),
        ("東京都", "京都", 1),
        ("a" * 1000, "b" * 1001, 1001),
    ],
)
def test_known_edit_distances(first: str, second: str, distance: int) -> None:
    assert levenshtein(first, second) == levenshtein(second, first) == distance


@given(FEW, FEW)
def test_the_edit_distance_is_that_of_the_textbook_s_table(first: str, second: str) -> None:
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        before, row = row, [i]
        for j, other in enumerate(second, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (one != other)))
    assert levenshtein(first, second) == row[-1]


@given(FEW, FEW)
def test_the_longest_common_sequence_is_that_of_the_textbook_s_table(
    first: Sequence[str], second: Sequence[str]
) -> None:
    row = [0] * (len(second) + 1)
    for one in first:
        before, row = row, [0]
        for j, other in enumerate(second, start=1):
            row.append(before[j - 1] + 1 if one == other else max(before[j], row[-1]))
    assert longest_common(first, second) == row[-1]
