"""A match: S is 1 for a win, 1/2 for a draw, 0 for a loss (Elo 1978, "The Rating of Chessplayers").

The attempt log is an ordered iterable of matches, in the order in which they ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from tallymark.errors import InvalidInput, suggest

_Value = TypeVar("_Value")

RESULTS: Mapping[str, float] = MappingProxyType(
    {"win": 1.0, "draw": 0.5, "loss": 0.0, "expired": 0.0}
)
"""What each result is worth; a match left to expire is a loss."""
TIERS: Mapping[str, int] = MappingProxyType(
    {"newcomer": 800, "contender": 1000, "veteran": 1200, "legendary": 1400}
)
"""The rating of the opponent that a challenge of each difficulty is."""


@dataclass(frozen=True, slots=True)
class Match:
    """One finished attempt of an agent at a challenge.

    `tier` is the challenge's difficulty when the match was played, so that a challenge moved to
    another tier does not rewrite the past.
    """

    agent: str
    challenge: str
    tier: str
    result: str
    verified: bool = False
    memoryless: bool = False
    first: bool | None = None
    """Whether it is the agent's first entry to the challenge; None: as the log says."""

    def __post_init__(self) -> None:
        worth(self.result)
        tier_rating(self.tier)


def worth(result: str) -> float:
    """S of a result; an unknown one is refused."""
    return _look_up(result, RESULTS, "result")


def tier_rating(tier: str) -> int:
    """The opponent's rating of a tier; an unknown one is refused."""
    return _look_up(tier, TIERS, "difficulty tier")


def require_whole(value: object, what: str, *, least: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    # True is an int to Python, but it is no count.
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{what} is {value!r}", hint=f"give a whole number of at least {least}")
    return value


def _look_up(word: object, table: Mapping[str, _Value], what: str) -> _Value:
    found = table.get(word) if isinstance(word, str) else None
    if found is None:
        close = suggest(word, table) if isinstance(word, str) else None
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(table)}"
        raise InvalidInput(f"{word!r} is not a {what}", hint=hint)
    return found
