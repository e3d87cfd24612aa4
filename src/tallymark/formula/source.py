"""The text of a formula, and where in it something stands."""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.errors import Place
from tallymark.formula.tree import Region


@dataclass(frozen=True, slots=True)
class FormulaText:
    """The text of a formula, which knows the line and column of its regions."""

    text: str

    def place(self, at: Region) -> Place:
        """The line and column of a region, with its line of text for a caret."""
        start = self.text.rfind("\n", 0, at.start) + 1
        end = self.text.find("\n", at.start)
        line = self.text[start : end if end >= 0 else len(self.text)]
        number = self.text.count("\n", 0, at.start) + 1
        # A tab or a control character would push the caret away from its place.
        printable = "".join(c if c.isprintable() else "\ufffd" for c in line)
        return Place(None, number, at.start - start + 1, max(1, at.end - at.start), printable)
