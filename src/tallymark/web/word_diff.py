"""Two texts word by word: what only one of them has."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Literal

import msgspec

_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
"""With the space behind them: spaces alone would pair with each other most of all."""
_MOST_PAIRS = 60_000
"""Of equal words, one from each text. Finding differences takes at worst this many steps for each
piece, half a second in all; usual answers of 2,000 words have fewer."""


class Piece(msgspec.Struct, frozen=True):
    """Some words in a row."""

    kind: Literal["same", "gone", "new"]
    text: str


class WordDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Both texts in pieces; what both have stands in both."""

    first: list[Piece]
    second: list[Piece]
    whole: bool = True
    """False where they are too long to be compared."""


def compare_words(first: str, second: str) -> WordDiff:
    """What the first has and the second has not, and the other way around."""
    one, two = _WORDS.findall(first), _WORDS.findall(second)
    if _count_pairs(one, two) > _MOST_PAIRS:
        return WordDiff(first=[Piece("same", first)], second=[Piece("same", second)], whole=False)
    left: list[Piece] = []
    right: list[Piece] = []
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        before, after = "".join(one[a:b]), "".join(two[c:d])
        if before:
            left.append(Piece("same" if kind == "equal" else "gone", before))
        if after:
            right.append(Piece("same" if kind == "equal" else "new", after))
    return WordDiff(first=left, second=right)


def _count_pairs(one: list[str], two: list[str]) -> int:
    there = Counter(two)
    return sum(there[word] * count for word, count in Counter(one).items())
