"""Searching the documentation, by a form or as it is typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.web.docs.docs_search import Hit, load_index
from tallymark.web.docs.docs_tree import Group, load_docs
from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

_MOST_CHARACTERS = 200


class DocsSearchView(View, frozen=True, kw_only=True):
    """The sections that have what is typed."""

    text: str
    hits: list[Hit]
    page: str = ""
    group: str = ""
    groups: list[Group]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each section."""
        return (
            {
                "page": hit.page,
                "heading": hit.heading,
                "address": hit.address,
                "text": "".join(each.text for each in hit.snippets),
            }
            for hit in self.hits
        )


def gather(visit: Visit) -> DocsSearchView:
    """The same for everybody."""
    text = visit.get("q").strip()[:_MOST_CHARACTERS]
    return DocsSearchView(
        title=f"Documentation: {text}" if text else "Search the documentation",
        text=text,
        hits=load_index().search(text) if text else [],
        groups=load_docs().groups,
    )


PAGE = Page("/docs/search", "docs/search.html", gather, parts={"found": "docs/search_found.html"})
