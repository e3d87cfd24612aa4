"""The longest common subsequence, with one whole number as each row of its table.

The bits of a Python integer take the place of the cells, so a row costs a few additions instead of
a loop (Hyyrö 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence that both contain, in order but with gaps."""
    places: dict[object, int] = {}  # for each element, a number whose bits are its positions
    for place, each in enumerate(first):
        places[each] = places.get(each, 0) | 1 << place
    every = row = (1 << len(first)) - 1
    for each in second:
        hits = row & places.get(each, 0)
        row = ((row + hits) | (row - hits)) & every
    return len(first) - row.bit_count()
