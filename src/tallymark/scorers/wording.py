"""How reasons show what a user wrote: in full when short, cut when long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def cut(text: str, most: int = 120) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listed(texts: Sequence[str], *, between: str = ", ", most: int = 8) -> str:
    """The texts in one line; after the first few, how many there are more."""
    line = between.join(cut(text, 40) for text in texts[:most])
    return line if len(texts) <= most else f"{line}{between}and {len(texts) - most} more"


def quoted(texts: Sequence[str]) -> str:
    """The texts in one line, each in quotes."""
    return listed([repr(cut(text, 38)) for text in texts])
