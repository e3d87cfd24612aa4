"""The arithmetic of a rating, step by step, as somebody would check it on paper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tallymark.ratings import elo
from tallymark.ratings.matches import tier_rating, worth
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.ratings import EloChange, Match
    from tallymark.service.ratings import EloStep

_TIMES = "\N{MULTIPLICATION SIGN}"


class Sum(msgspec.Struct, frozen=True):
    """A step of it."""

    what: str
    how: str
    result: str


def write_sums(match: Match, change: EloChange) -> Iterable[Sum]:
    """From what was expected to the rating afterwards."""
    opponent, value = tier_rating(match.tier), worth(match.result)
    did = {1.0: "Won", 0.5: "Drew", 0.0: "Lost"}[value]
    plain = change.k * (value - change.expected)
    rounded = elo.half_up(plain)
    yield Sum(
        f"Expected against tier {match.tier}",
        f"1 / (1 + 10^(({opponent} - {change.before}) / 400))",
        format_number(change.expected, 3, 3),
    )
    yield Sum(
        f"{did}, so the change is",
        f"{change.k} {_TIMES} ({format_number(value)} - {format_number(change.expected, 3, 3)})"
        f" = {format_number(plain, 2)}, rounded",
        f"{rounded:+d}",
    )
    if change.bonus != 1.0:
        more = (rounded * round(change.bonus * 10) + 5) // 10
        yield Sum(
            "Verified win",
            f"{rounded} {_TIMES} {format_number(change.bonus)}, rounded",
            f"{more:+d}",
        )
    floor = " (not below 100)" if change.after == elo.FLOOR else ""
    yield Sum(
        "Elo",
        f"{change.before} {'-' if change.change < 0 else '+'} {abs(change.change)}{floor}",
        f"{change.after}",
    )


def write_step(step: EloStep) -> str:
    """Write the change of an Elo as a line."""
    bonus = f" {_TIMES} {format_number(step.bonus)}" if step.bonus != 1.0 else ""
    won, expected = format_number(step.won), format_number(step.expected, 3, 3)
    return f"{step.k} {_TIMES} ({won} - {expected}){bonus}"
