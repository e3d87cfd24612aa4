from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tallymark.scorers.longest_common_subsequence import longest_common

FEW = st.text("abß🎉", max_size=80)


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
