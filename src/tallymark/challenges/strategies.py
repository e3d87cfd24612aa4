"""How a board is ordered: one row a strategy, which the store, scoring and commands all read.

Every agent stands on a board with its best attempt. The strategy's number decides, and where it is
missing an attempt ranks last in either direction. Ties go to the earlier attempt, by when it was
submitted, then by its id.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from tallymark.text import format_digits, format_moment


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """One way to order a board. To add one, add its row to the table below."""

    name: str
    column: str
    """Of `attempt_scores` in the store: the number that it orders by."""
    metric: str | None
    """The metric that is an attempt's score; None where a formula, plugin or dimensions give it."""
    heading: str
    highest_first: bool = False
    write: Callable[[float | None], str] = format_digits
    """How a person reads the number."""

    def place(self, value: float | None) -> float:
        """The number as the store sorts it: less is better, and what is missing comes last."""
        if value is None:
            return math.inf
        return -float(value) if self.highest_first else float(value)


def _write_moment(value: float | None) -> str:
    return format_digits(value) if value is None else format_moment(value)


STRATEGIES = {
    each.name: each
    for each in (
        Strategy(
            name="first",
            column="submitted_at",
            metric="succeeded",
            heading="FIRST (UTC)",
            write=_write_moment,
        ),
        Strategy(name="fastest", column="elapsed_ms", metric="elapsed_ms", heading="MILLISECONDS"),
        Strategy(
            name="fewest_tokens", column="tokens_total", metric="tokens_total", heading="TOKENS"
        ),
        Strategy(
            name="highest_rating",
            column="rating",
            metric="rating",
            heading="RATING",
            highest_first=True,
        ),
        Strategy(name="custom", column="score", metric=None, heading="SCORE", highest_first=True),
    )
}
"""By name, in the order in which messages list them."""


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
    trajectory_level: str = "none"
    """How far the trajectory of its best attempt can be believed: see `TrajectoryLevel`."""
