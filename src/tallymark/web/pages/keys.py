"""Page of the keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest

KEYS = {
    "?": "these shortcuts",
    "/": "search, or filter the list",
    "g h": "home",
    "g r": "runs",
    "g c": "challenges",
    "g a": "agents",
    "g t": "ratings",
    "g f": "formula bench",
    "g d": "documentation",
    "g o": "organiser",
    "j": "next row, case or page",
    "k": "previous row, case or page",
    "Enter": "open the row",
    "x": "select the row",
    "c": "compare the selected runs",
    "p": "mark a case as passed",
    "f": "mark a case as failed",
    "m": "write a comment",
    "w": "what if: try another rule on a board",
    "y": "copy a link to the page or the current row",
    "t": "light or dark",
    "Esc": "leave a field, close a tooltip, end what-if",
}


class KeysView(View, frozen=True, kw_only=True):
    """All shortcuts."""

    keys: dict[str, str]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return ({"key": key, "does": does} for key, does in self.keys.items())


def gather(_visit: PageRequest) -> KeysView:
    """Gather the same content for all visitors."""
    return KeysView(title="Keyboard", keys=KEYS)


PAGE = Page("/keys", "keys.html", gather)
