"""Word-by-word diff of two texts."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Literal

import msgspec

_WORDS = re.compile(r"\w+\s*|\s+|[^\w\s]\s*")
"""Words with the space after them; separate spaces would match each other."""
_MOST_PAIRS = 60_000
"""Most pairs of equal words, which bounds the time to about half a second; usual answers of 2,000
words have fewer."""


class Piece(msgspec.Struct, frozen=True):
    """A run of words."""

    kind: Literal["same", "gone", "new"]
    text: str


class WordDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces of both texts."""

    first: list[Piece]
    second: list[Piece]
    whole: bool = True
    """False if they are too long to compare."""


def compare_words(first: str, second: str) -> WordDiff:
    """Compare two texts word by word."""
    one, two = _WORDS.findall(first), _WORDS.findall(second)
    counts = Counter(two)
    if sum(counts[word] * count for word, count in Counter(one).items()) > _MOST_PAIRS:
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
