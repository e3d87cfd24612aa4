"""What options must be, beyond their type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.errors import ScorerError
from tallymark.scoring.score import shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def demand(holds: bool, scorer: str, option: str, value: object, wanted: str) -> None:
    """Refuse an option whose value is of the right type but makes no sense."""
    if not holds:
        raise ScorerError(f"{scorer}: the option {option!r} is {shown(value)}; it must be {wanted}")


def demand_texts(scorer: str, option: str, texts: Sequence[str]) -> None:
    """Refuse a list of texts to look for that is empty or has an empty text in it."""
    demand(bool(texts), scorer, option, texts, "a list of at least one text")
    demand(all(texts), scorer, option, texts, "a list of texts that are not empty")
