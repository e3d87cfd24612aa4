"""Search of the documentation: SQLite full-text search over all sections.

The index is in memory and made at the first search. A title counts more than a heading, and a
heading more than text; the last word may be the beginning of one, so that an answer is there while
it is still being typed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock

import msgspec

from tallymark.web.docs_tree import DECISIONS, DocsTree, load_docs

_MOST_WORDS = 8
_PART = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[^\W_]+(?:[_-][^\W_]+)*")
_FACTORS = {
    "api-reference": 0.5,
    "changelog": 0.2,
    "cli": 0.5,
    f"{DECISIONS}/": 0.3,
    "map": 0.2,
}
"""Rank factors by page name prefix: pages that mention much and explain little rank lower."""
_STOP_WORDS = (
    " a an and are as at by can do does for from get how i in is it me my of on or set that the to "
    "use what when where which who why with "
)
_BEGIN, _END = "\x02", "\x03"
"""Marks around matches in a snippet: `char(2)` and `char(3)` below."""
_TABLE = """
CREATE VIRTUAL TABLE sections USING fts5(
    title, about, page, heading, text, address UNINDEXED, factor UNINDEXED,
    tokenize = "porter unicode61"
)
"""
_SEARCH = """
SELECT page, heading, address, snippet(sections, 4, char(2), char(3), '…', 28) FROM sections
WHERE sections MATCH ? ORDER BY bm25(sections, 6, 4, 1, 6, 1) * factor, rowid LIMIT 20
"""


class Snippet(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text; `found` marks a match."""

    text: str
    found: bool = False


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A section that matches."""

    page: str
    heading: str
    """Empty for the beginning of a page."""
    address: str
    snippets: list[Snippet]


class DocsIndex:
    """Index of all sections, in an in-memory database."""

    def __init__(self, tree: DocsTree) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._lock = Lock()
        self._database.execute(_TABLE)
        entries = {each.page: each for group in tree.groups for each in group.entries}
        for page in tree.list_pages():
            found = (each for name, each in _FACTORS.items() if page.name.startswith(name))
            factor = next(found, 1.0)
            entry = entries.get(page.name)
            title = f"{page.read.title} {page.name} {entry.title if entry else ''}"
            about = entry.about if entry else ""
            for section in page.read.sections:
                first, anchor = section.heading.rank == 1, section.heading.anchor
                self._database.execute(
                    "INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        title if first else "",
                        about if first else "",
                        page.read.title,
                        "" if first else section.heading.text,
                        " ".join(section.text.split()),
                        page.address + ("" if first else f"#{anchor}"),
                        factor,
                    ),
                )

    def search(self, text: str) -> list[Hit]:
        """Find sections with all words, best first, or else with some of them."""
        words = _choose_words(_WORD.findall(text.casefold()))
        parts = _choose_words(_PART.findall(text.casefold()))
        if not words:
            return []
        every = f'({" AND ".join(_write_terms(words))}) OR "{" ".join(words)}"'
        return self._find(every) or self._find(" OR ".join(_write_terms(parts)))

    def _find(self, query: str) -> list[Hit]:
        with self._lock:
            rows = self._database.execute(_SEARCH, (query,)).fetchall()
        return [
            Hit(page=page, heading=heading, address=address, snippets=_split_snippet(snippet))
            for page, heading, address, snippet in rows
        ]


def _choose_words(found: list[str]) -> list[str]:
    """Drop stop words, unless there are no others."""
    words = list(dict.fromkeys(found))
    return ([each for each in words if f" {each} " not in _STOP_WORDS] or words)[:_MOST_WORDS]


def _write_terms(words: list[str]) -> Iterator[str]:
    """Quote each word, so that nothing in it is syntax of a query; the last may be a prefix."""
    for word in words:
        prefix = word == words[-1] and len(word) > 1
        yield f'("{word}" OR "{word}"*)' if prefix else f'"{word}"'


def _split_snippet(marked: str) -> list[Snippet]:
    before, *others = marked.split(_BEGIN)
    found = [Snippet(text=before)] if before else []
    for each in others:
        hit, _, after = each.partition(_END)
        found.append(Snippet(text=hit, found=True))
        if after:
            found.append(Snippet(text=after))
    return found


@lru_cache(maxsize=1)
def load_index() -> DocsIndex:
    """Return the index of the documentation of this version."""
    return DocsIndex(load_docs())
