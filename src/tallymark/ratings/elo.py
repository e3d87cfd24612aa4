"""Elo: E = 1 / (1 + 10^((opponent - rating) / 400)), change = K (S - E) (Elo 1978).

Changes are rounded half-up, floor(x + 1/2) taken exactly: 2.5 becomes 3, and -2.5 becomes -2. A
win's change is rounded first, then multiplied by its bonus, then rounded again. All ratings are
whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tallymark.ratings.matches import Match, require_whole, tier_rating, worth

START = 1000
FLOOR = 100
# K: how far one match can move a rating, before a win's bonus. New agents move faster.
PROVISIONAL_MATCHES = 30
PROVISIONAL_K = 32
SETTLED_K = 16
VERIFIED_BONUS = 1.1
BENCHMARK_BONUS = 1.2
_FAR = 100_000
"""A gap beyond which an expectation is 0 or 1 anyway, and powers of ten would overflow."""


@dataclass(frozen=True, slots=True)
class EloChange:
    """One update. `change` is after - before, so it is smaller than computed at the floor.

    `bonus` is the multiplier of a win: 1.0, 1.1 or 1.2.
    """

    before: int
    after: int
    change: int
    expected: float
    k: int
    bonus: float


@dataclass(frozen=True, slots=True)
class EloRating:
    """An agent's rating, and the matches that led to it."""

    rating: int = START
    matches: int = 0
    wins: int = 0
    draws: int = 0
    losses: int = 0


def expected(rating: int, opponent: int) -> float:
    """E, the share of points that a player of this rating gets from this opponent."""
    gap = max(-_FAR, min(_FAR, opponent - rating))
    return float(1 / (1 + 10.0 ** (gap / 400)))


def k_factor(matches: int) -> int:
    """K for the next match after this number of matches."""
    played = require_whole(matches, "the number of matches", least=0)
    return PROVISIONAL_K if played < PROVISIONAL_MATCHES else SETTLED_K


def half_up(value: float) -> int:
    """floor(value + 1/2), without the rounding error of that sum."""
    low = math.floor(value)
    return low + (value - low >= 0.5)


def update(  # noqa: PLR0913 - the facts of one match
    rating: int,
    opponent: str | int,
    result: str,
    *,
    matches: int,
    verified: bool = False,
    memoryless: bool = False,
    first_attempt: bool = False,
) -> EloChange:
    """The change by one match against a tier or a rating, after `matches` earlier ones."""
    require_whole(rating, "the rating", least=FLOOR)
    if isinstance(opponent, str):
        opponent = tier_rating(opponent)
    require_whole(opponent, "the opponent's rating", least=FLOOR)
    score, chance, k = worth(result), expected(rating, opponent), k_factor(matches)
    change = half_up(k * (score - chance))
    bonus = _choose_bonus(verified, memoryless and first_attempt) if result == "win" else 1.0
    # In tenths and whole numbers: 1.1 is no binary fraction, and 25 x 1.1 must be 27.5.
    change = (change * round(bonus * 10) + 5) // 10
    after = max(FLOOR, rating + change)
    return EloChange(rating, after, after - rating, chance, k, bonus)


def history(log: Iterable[Match]) -> Iterator[tuple[Match, EloChange]]:
    """Every match of the log with the change it made.

    How many matches came before is read from the log itself, and so is whether this is the agent's
    first attempt at the challenge, unless the match knows of attempts that are not in the log.
    """
    ratings: dict[str, tuple[int, int]] = {}
    tried: set[tuple[str, str]] = set()
    for match in log:
        rating, matches = ratings.get(match.agent, (START, 0))
        pair = (match.agent, match.challenge)
        first = pair not in tried if match.first is None else match.first
        change = _update_by_match(rating, matches, match, first=first)
        tried.add(pair)
        ratings[match.agent] = (change.after, matches + 1)
        yield match, change


def replay(log: Iterable[Match]) -> dict[str, EloRating]:
    """The rating of every agent in the log."""
    ratings: dict[str, EloRating] = {}
    for match, change in history(log):
        old = ratings.get(match.agent, EloRating())
        ratings[match.agent] = _count(old, match, change)
    return ratings


def rate(rating: EloRating, match: Match) -> EloRating:
    """An agent's rating after one more match, whose `first` tells if it is a first attempt."""
    change = _update_by_match(rating.rating, rating.matches, match, first=bool(match.first))
    return _count(rating, match, change)


def _update_by_match(rating: int, matches: int, match: Match, *, first: bool) -> EloChange:
    return update(
        rating,
        match.tier,
        match.result,
        matches=matches,
        verified=match.verified,
        memoryless=match.memoryless,
        first_attempt=first,
    )


def _count(old: EloRating, match: Match, change: EloChange) -> EloRating:
    score = worth(match.result)
    return replace(
        old,
        rating=change.after,
        matches=old.matches + 1,
        wins=old.wins + (score == 1.0),
        draws=old.draws + (score == 0.5),
        losses=old.losses + (score == 0.0),
    )


def _choose_bonus(verified: bool, benchmark_grade: bool) -> float:
    if not verified:
        return 1.0
    return BENCHMARK_BONUS if benchmark_grade else VERIFIED_BONUS
