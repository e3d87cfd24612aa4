"""Two measures of how sequences differ, each with one whole number as its row of the table.

The bits of a Python integer take the place of the cells, so a row costs a few additions
instead of a loop (Myers 1999 and Hyyrö 2003 for the edit distance, Hyyrö 2004 for the other).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def levenshtein(first: str, second: str) -> int:
    """The fewest insertions, deletions and replacements of one character between two texts."""
    if first == second:
        return 0
    short, long = sorted((first, second), key=len)
    if not short:
        return len(long)
    places = _mark_places(short)
    every = (1 << len(short)) - 1
    last = 1 << (len(short) - 1)
    up, down = every, 0  # where the table rises, and where it falls, along the short text
    distance = len(short)
    for char in long:
        here = places.get(char, 0)
        diagonal = (((here & up) + up) ^ up) | here | down
        rises = down | ~(diagonal | up)
        falls = up & diagonal
        if rises & last:
            distance += 1
        elif falls & last:
            distance -= 1
        rises = rises << 1 | 1
        up = (falls << 1 | ~(diagonal | rises)) & every
        down = rises & diagonal & every
    return distance


def longest_common(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence that both contain, in order but with gaps."""
    places = _mark_places(first)
    every = row = (1 << len(first)) - 1
    for each in second:
        hits = row & places.get(each, 0)
        row = ((row + hits) | (row - hits)) & every
    return len(first) - row.bit_count()


def _mark_places(sequence: Sequence[str]) -> dict[str, int]:
    """For each element, a number whose bits say where it stands."""
    places: dict[str, int] = {}
    for place, each in enumerate(sequence):
        places[each] = places.get(each, 0) | 1 << place
    return places
