"""Searching the documentation: every section is looked at, titles count more than words.

The index is made once, at the first search. A word is found by its beginning too, so that an
answer is there while the word is still being typed.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from tallymark.web.docs.docs_tree import DECISIONS, DocsPage, load_docs
from tallymark.web.markdown import Heading

MOST = 20
_WORD = re.compile(r"[^\W_]+(?:[_-][^\W_]+)*")
_PART = re.compile(r"[_-]")
_TITLE, _HEADING, _TEXT = 12.0, 6.0, 1.0
_BEGUN = 0.5
"""What a word counts of which only the beginning was typed."""
_QUIETER = {"cli": 0.5, "api-reference": 0.5, "changelog": 0.5}
"""Pages that name everything, and so explain little."""
_OLDER = 0.5
"""What a decision counts: it says why, and is rarely what is looked for."""
_BEFORE, _AROUND = 60, 180


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text, and whether it is what was looked for."""

    text: str
    found: bool = False


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A section that has what was looked for."""

    page: str
    heading: str
    """Empty for the beginning of a page."""
    address: str
    snippets: list[Snippet]


class _Place(msgspec.Struct, frozen=True):
    page: DocsPage
    heading: Heading
    text: str


class DocsIndex:
    """In which sections a word stands, and how much it counts there."""

    def __init__(self, pages: Iterable[DocsPage]) -> None:
        self._places: list[_Place] = []
        self._weights: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for page in pages:
            self._add(page)
        self._words = sorted(self._weights)

    def _add(self, page: DocsPage) -> None:
        factor = _QUIETER.get(page.name, 1.0) * (_OLDER if page.name.startswith(DECISIONS) else 1.0)
        title = set(_read_words(page.read.title))
        for section in page.read.sections:
            number = len(self._places)
            self._places.append(_Place(page, section.heading, section.text))
            first = section.heading.rank == 1
            counted: defaultdict[str, float] = defaultdict(float)
            for word, times in Counter(_read_words(section.text)).items():
                counted[word] += _TEXT * (1 + math.log(times))
            for word in set(_read_words(section.heading.text)):
                counted[word] += _TITLE if first else _HEADING
            for word in title - set(counted):
                counted[word] = _TEXT / 2
            for word, weight in counted.items():
                self._weights[word][number] = weight * factor

    def search(self, text: str) -> list[Hit]:
        """The sections that have all words, the best first; else those that have most."""
        wanted = list(dict.fromkeys(_stem(each.casefold()) for each in _WORD.findall(text)[:8]))
        if not wanted:
            return []
        found = [self._find(word) for word in wanted]
        having = Counter(number for each in found for number in each)
        most = max(having.values(), default=0)
        scores = {
            number: sum(each.get(number, 0.0) for each in found)
            for number, times in having.items()
            if times == most
        }
        best = sorted(scores, key=lambda number: (-scores[number], number))
        return [_show(self._places[number], wanted) for number in best[:MOST]]

    def _find(self, word: str) -> dict[int, float]:
        """By section, what the word counts; of several that begin so the best counts."""
        found: dict[int, float] = {}
        for known in self._begin_with(word):
            weights = self._weights[known]
            rarity = math.log(1 + len(self._places) / len(weights))
            share = 1.0 if known == word else _BEGUN
            for number, weight in weights.items():
                found[number] = max(found.get(number, 0.0), weight * rarity * share)
        return found

    def _begin_with(self, word: str) -> Iterator[str]:
        if len(word) < 2:
            return (each for each in (word,) if each in self._weights)
        return (each for each in self._words if each.startswith(word))


def _read_words(text: str) -> Iterator[str]:
    """Its words, and the parts of those that are joined by hyphens or underscores."""
    for found in _WORD.findall(text.casefold()):
        yield _stem(found)
        parts = _PART.split(found)
        if len(parts) > 1:
            yield from map(_stem, parts)


def _stem(word: str) -> str:
    """One word for singular and plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _show(place: _Place, wanted: list[str]) -> Hit:
    first = place.heading.rank == 1
    return Hit(
        page=place.page.read.title,
        heading="" if first else place.heading.text,
        address=place.page.address + ("" if first else f"#{place.heading.anchor}"),
        snippets=list(_cut_snippets(" ".join(place.text.split()), wanted)),
    )


def _cut_snippets(text: str, wanted: list[str]) -> Iterator[Snippet]:
    """What stands around the first word that was looked for, with all of them marked."""
    pattern = re.compile(
        r"(?<![^\W_])(" + "|".join(map(re.escape, sorted(wanted, key=len, reverse=True))) + r")\w*",
        re.IGNORECASE,
    )
    first = pattern.search(text)
    start = max(0, (first.start() if first else 0) - _BEFORE)
    start = text.find(" ", start) + 1 if start else 0
    piece = text[start : start + _AROUND]
    end = len(text) > start + _AROUND
    piece = piece.rpartition(" ")[0] if end and " " in piece else piece
    at = 0
    if start:
        yield Snippet(text="… ")
    for match in pattern.finditer(piece):
        if match.start() > at:
            yield Snippet(text=piece[at : match.start()])
        yield Snippet(text=match[0], found=True)
        at = match.end()
    yield Snippet(text=piece[at:] + (" …" if end else ""))


@lru_cache(maxsize=1)
def load_index() -> DocsIndex:
    """Of the documentation of this version."""
    return DocsIndex(load_docs().list_pages())
