"""Searching the documentation: every section is looked at, titles count more than words.

The index is made once, at the first search. A word is found by its beginning too, so that an
answer is there while the word is still being typed, and by what other tools call the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from tallymark.web.docs.docs_tree import DECISIONS, DocsPage, DocsTree, Entry, load_docs
from tallymark.web.markdown import Heading

MOST = 20
_WORD = re.compile(r"[^\W_]+(?:[_-][^\W_]+)*")
_PART = re.compile(r"[_-]")
_TITLE, _HEADING, _TEXT = 12.0, 6.0, 1.0
_BEGUN = 0.5
"""What a word counts of which only the beginning was typed."""
_MEANT = 0.7
"""What a word of ours counts where another tool's was typed."""
_TOGETHER = 2.0
"""What a section counts where the words stand side by side, as they were typed."""
_QUIETER = {"cli": 0.5, "api-reference": 0.5, "changelog": 0.2, "map": 0.2}
"""Pages that name everything, and so explain little."""
_OLDER = 0.3
"""What a decision counts: it says why, and is rarely what is looked for."""
_UNSAID = (
    " a an and are as at by can do does for from get how i in is it me my of on or set that the to "
    "use what when where which who why with "
)
"""Words of questions, which say nothing of what is looked for."""
_ELSEWHERE = {
    "arena": "rating",
    "assert assertion": "check",
    "auth authentication permission rbac role": "key may",
    "cd pipeline": "ci",
    "cheat hack": "security",
    "concurrency parallel": "thread worker",
    "diff": "compare",
    "discord email slack": "webhook",
    "docker helm k8s kubernetes podman": "container",
    "flaky noise significance variance": "interval luck",
    "gdpr retention": "removed",
    "delete": "removed",
    "getting quickstart started": "install",
    "glicko trueskill": "rating",
    "grader metric": "scorer",
    "hallucination toxicity": "rubric",
    "leaderboard scoreboard": "board",
    "limit": "budget cap",
    "ldap oauth oidc saml sso": "sign-on",
    "migrate": "upgrading import",
    "monitoring": "watch production",
    "organization workspace": "tenant",
    "otel otlp": "opentelemetry",
    "password": "key login",
    "phase": "track",
    "prediction": "submission",
    "repeat trial": "epoch",
    "retry": "retries again",
    "sse streaming": "event live",
    "team": "owner tenant",
    "upload": "submit",
}
"""What other tools call things, and what they are called here."""
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

    def __init__(self, tree: DocsTree) -> None:
        self._places: list[_Place] = []
        self._weights: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._written: set[str] = set()
        about = {each.page: each for group in tree.groups for each in group.entries}
        for page in tree.list_pages():
            self._add(page, about.get(page.name))
        self._words = sorted(self._written)

    def _add(self, page: DocsPage, entry: Entry | None) -> None:
        factor = _QUIETER.get(page.name, 1.0) * (_OLDER if page.name.startswith(DECISIONS) else 1.0)
        named = f"{page.read.title} {page.name} {entry.title}" if entry else page.read.title
        title = self._read(named)
        about = self._read(entry.about) if entry else set()
        for section in page.read.sections:
            number = len(self._places)
            self._places.append(_Place(page, section.heading, section.text))
            first = section.heading.rank == 1
            counted: defaultdict[str, float] = defaultdict(float)
            for word, times in Counter(map(_stem, _read_words(section.text))).items():
                counted[word] += _TEXT * (1 + math.log(times))
            for word in self._read(section.heading.text) | (title if first else set()):
                counted[word] += _TITLE if first else _HEADING
            for word in about if first else ():
                counted[word] += _HEADING / 2
            for word in title - set(counted):
                counted[word] = _TEXT / 2
            for word, weight in counted.items():
                self._weights[word][number] = weight * factor
            self._written.update(_read_words(section.text))

    def _read(self, text: str) -> set[str]:
        """The stems of its words, which are then known by their beginnings."""
        words = set(_read_words(text))
        self._written.update(words)
        return set(map(_stem, words))

    def search(self, text: str) -> list[Hit]:
        """The sections that have all words, the best first; else those that have most."""
        typed = self._choose(text)
        if not typed:
            return []
        found = [self._find(word) for word in typed]
        having = Counter(number for each in found for number in each)
        most = max(having.values(), default=0)
        together = " ".join(map(_stem, typed))
        scores = {
            number: sum(each.get(number, 0.0) for each in found)
            * (_TOGETHER if len(typed) > 1 and self._has(number, together) else 1.0)
            for number, times in having.items()
            if times == most
        }
        best = sorted(scores, key=lambda number: (-scores[number], number))
        wanted = [stem for word in typed for stem in (_stem(word), *_MEANINGS.get(_stem(word), ()))]
        return [_show(self._places[number], wanted) for number in best[:MOST]]

    def _choose(self, text: str) -> list[str]:
        """The words that say something; what is joined by hyphens in parts, if never written so."""
        words: list[str] = []
        for found in _WORD.findall(text.casefold()):
            known = _stem(found) in self._weights or _stem(found) in _MEANINGS
            words += [found] if known else _PART.split(found)
        said = [each for each in words if f" {each} " not in _UNSAID] or words
        return list(dict.fromkeys(said))[:8]

    def _has(self, number: int, together: str) -> bool:
        place = self._places[number]
        stems = map(_stem, _WORD.findall(f"{place.heading.text} {place.text}".casefold()))
        return f" {together} " in f" {' '.join(stems)} "

    def _find(self, word: str) -> dict[int, float]:
        """By section, what the word counts; of several that begin or mean so the best counts."""
        stem = _stem(word)
        shares = dict.fromkeys(_MEANINGS.get(stem, ()), _MEANT)
        shares |= {_stem(each): _BEGUN for each in self._begin_with(word)} | {stem: 1.0}
        found: dict[int, float] = {}
        for known, share in shares.items():
            weights = self._weights.get(known, {})
            for number, weight in weights.items():
                rarity = math.log(1 + len(self._places) / len(weights))
                found[number] = max(found.get(number, 0.0), weight * rarity * share)
        return found

    def _begin_with(self, word: str) -> Iterator[str]:
        return (each for each in self._words if len(word) > 1 and each.startswith(word))


def _read_words(text: str) -> Iterator[str]:
    """Its words, and the parts of those that are joined by hyphens or underscores."""
    for found in _WORD.findall(text.casefold()):
        yield found
        parts = _PART.split(found)
        if len(parts) > 1:
            yield from parts


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """One word for singular and plural, for `cache`, `cached` and `caching`."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    for end in ("ing", "ed", "e"):
        if word.endswith(end) and len(word) - len(end) > 3:
            return word[: -len(end)]
    return word


_MEANINGS = {
    _stem(theirs): tuple(map(_stem, ours.split()))
    for all_theirs, ours in _ELSEWHERE.items()
    for theirs in all_theirs.split()
}


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
    return DocsIndex(load_docs())
