"""The keyboard map, and how to switch single keys off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest

KEYS = {
    "?": "this map",
    "/": "find, or filter the list",
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
    "x": "choose the row",
    "c": "compare what is chosen",
    "p": "pass: what you say of a case",
    "f": "fail: what you say of a case",
    "m": "say why",
    "w": "what if: try another rule on a board",
    "y": "copy a link to what is shown, or to the row that you are at",
    "t": "light or dark",
    "Esc": "leave a field, close a tip, end what-if",
}


class KeysView(View, frozen=True, kw_only=True):
    """Every key."""

    keys: dict[str, str]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each key."""
        return ({"key": key, "does": does} for key, does in self.keys.items())


def gather(_visit: PageRequest) -> KeysView:
    """The same for everybody."""
    return KeysView(title="Keyboard", keys=KEYS)


PAGE = Page("/keys", "keys.html", gather)
