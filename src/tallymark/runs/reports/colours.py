"""Styled lines as a text for `rich`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tallymark.runs.reports.summary_report import StyledLine


def coloured(lines: Iterable[StyledLine]) -> Text:
    """The lines with their styles; nothing in them is read as markup."""
    return Text("\n").join(Text(line.text, style=line.style) for line in lines)
