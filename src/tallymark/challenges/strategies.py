"""Standings: the order of a board, the same whoever sorts it: Python, SQLite or PostgreSQL.

Every strategy becomes one number where less is better, or None where it is missing; None ranks
last in either direction. Ties go to the earlier attempt, by when it was submitted, then by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tallymark.challenges.attempt import Attempt
from tallymark.challenges.challenge import Strategy


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a board: an agent with its best attempt."""

    rank: int
    agent: str
    attempt: str
    value: float | None
    """What the board is ordered by, as people read it: a score, milliseconds, tokens."""
    score: float | None
    submitted_at: float
    tries: int
    """How many attempts of the agent were scored."""


_KEYS: dict[Strategy, Callable[[Attempt], float | None]] = {
    "first": lambda a: a.submitted_at,
    "fastest": lambda a: _read_metric(a, "elapsed_ms"),
    "fewest_tokens": lambda a: _read_metric(a, "tokens_total"),
    "highest_rating": lambda a: _negate(_read_metric(a, "rating")),
    "custom": lambda a: _negate(a.outcome.score if a.outcome else None),
}
HIGHEST_FIRST: frozenset[Strategy] = frozenset({"highest_rating", "custom"})


def strategy_key(attempt: Attempt, strategy: Strategy) -> float | None:
    """The number that orders attempts: less is better, None is last."""
    return _KEYS[strategy](attempt)


def board_order(attempt: Attempt, strategy: Strategy) -> tuple[bool, float, float, str]:
    """The whole order, for Python's own sort."""
    number = strategy_key(attempt, strategy)
    # Ids are rows' numbers filled up with zeros, so that as texts they sort alike everywhere.
    return (number is None, number or 0.0, attempt.submitted_at or 0.0, attempt.id)


def best_per_agent(attempts: Iterable[Attempt], strategy: Strategy) -> list[Attempt]:
    """The best attempt of every agent that has one that ranks, best first."""
    best: dict[str, Attempt] = {}
    for attempt in attempts:
        if attempt.outcome is None or not attempt.outcome.ranks:
            continue
        known = best.get(attempt.agent)
        if known is None or board_order(attempt, strategy) < board_order(known, strategy):
            best[attempt.agent] = attempt
    return sorted(best.values(), key=lambda each: board_order(each, strategy))


def _read_metric(attempt: Attempt, name: str) -> float | None:
    metrics: Any = attempt.outcome.metrics if attempt.outcome else None
    value = getattr(metrics, name, None)
    return None if value is None else float(value)


def _negate(value: float | None) -> float | None:
    return None if value is None else -value
