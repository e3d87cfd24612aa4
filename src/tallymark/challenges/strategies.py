"""Orders of leaderboards: one row for each strategy, used by the store, scoring and commands.

Every agent has its best attempt on the board. The strategy's number decides; attempts without it
rank last in either direction. Ties go to the earlier attempt by submission time, then by id.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallymark.dimensions.breakdown import Result
from tallymark.text import format_digits, format_moment


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """One way to order a board. To add one, add its row to the table below."""

    name: str
    column: str
    """Column of `attempt_scores` that it orders by."""
    metric: str | None
    """The metric that is an attempt's score; None where a formula, plugin or dimensions give it."""
    heading: str
    highest_first: bool = False
    write: Callable[[float | None], str] = format_digits
    """Formatting of the number."""

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


class LikelyPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of all attempts of an agent with its 95 % interval, and the places it allows."""

    mean: float
    low: float
    high: float
    first: int
    last: int
    among: Annotated[int, Meta(description="Number of agents with such a mean.")]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a board: an agent with its best attempt, or a player of red against blue."""

    rank: int
    agent: str
    attempt: Annotated[str | None, Meta(description="None in red against blue.")]
    value: Annotated[
        float | None,
        Meta(
            description="What the board is ordered by: a score, milliseconds, tokens, or when it"
            " was submitted. In red against blue, points."
        ),
    ]
    score: Annotated[float | None, Meta(description="In red against blue, the ratio of points.")]
    submitted_at: float
    tries: Annotated[
        int, Meta(description="Number of scored attempts; in red against blue, of submissions.")
    ]
    trajectory_level: Annotated[
        str, Meta(description="How far the trajectory of the attempt can be believed.")
    ] = "none"

    # With `details`:
    result: Result | UnsetType | None = UNSET
    elapsed_ms: int | UnsetType | None = UNSET
    dimensions: Annotated[
        dict[str, float] | UnsetType, Meta(description="Raw scores by key, not weighed.")
    ] = UNSET
    by_earlier_rule: Annotated[
        bool | UnsetType,
        Meta(description="Rescored after its board was frozen, so its dimensions are not known."),
    ] = UNSET
    likely: Annotated[
        LikelyPlace | UnsetType, Meta(description="On small live boards with repeated attempts.")
    ] = UNSET

    # By another rule:
    before: Annotated[
        int | UnsetType | None, Meta(description="The rank by the rule that counts.")
    ] = UNSET
    moved: Annotated[int | UnsetType | None, Meta(description="Ranks up; negative: down.")] = UNSET
    official: Annotated[
        float | UnsetType | None, Meta(description="The value by the rule that counts.")
    ] = UNSET

    # In red against blue:
    side: Annotated[
        Literal["red", "blue"] | UnsetType | None, Meta(description="None: the better of both.")
    ] = UNSET
    points: int | UnsetType = UNSET
    against: int | UnsetType = UNSET
    ratio: float | UnsetType | None = UNSET
    categories: dict[str, dict[str, int]] | UnsetType = UNSET
    unjudged: int | UnsetType = UNSET
    strength: Annotated[
        dict[str, Any] | UnsetType | None,
        Meta(description="With its 95 % interval, and the floor that sides are ordered by."),
    ] = UNSET
