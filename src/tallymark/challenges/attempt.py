"""`Attempt`: one try by one agent, its states, and what is sent with it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from tallymark.scoring import Origin

State = Literal["entered", "submitted", "scored", "failed", "expired", "withdrawn"]
"""What an attempt is. Scored and failed may follow each other and themselves, by rescoring.

A trusted system that reports an attempt enters and submits it at once. A failed attempt was
evaluated, but could not be scored: its score is None and `error` says why; scoring it again may
mend that.
"""

TrajectoryLevel = Literal["none", "claimed", "consistent", "witnessed"]
LEVELS: tuple[TrajectoryLevel, ...] = get_args(TrajectoryLevel)
"""How far a trajectory can be believed, least first.

`claimed` was sent along; `consistent` agrees with itself, with the claims and with our clock, and
could still be made up; `witnessed` reached a server while the attempt ran.
"""


def reaches(level: TrajectoryLevel, least: TrajectoryLevel) -> bool:
    """Whether a trajectory can be believed as far as that."""
    return LEVELS.index(level) >= LEVELS.index(least)


class Metrics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers that strategies, plugins and formulas work with. None is unknown."""

    succeeded: bool = False
    tokens_total: int | None = None
    elapsed_ms: int | None = None
    rating: float | None = None
    created_at: int | None = None
    """When it was entered, in milliseconds since 1970."""
    cost: float | None = None
    calls: int | None = None
    more: dict[str, float | None] = msgspec.field(default_factory=dict)
    """An evaluator's own numbers, by names that a formula can use."""

    def to_dict(self) -> dict[str, Any]:
        """What is known; that it did not succeed is."""
        return {"succeeded": self.succeeded, **msgspec.to_builtins(self)}


COUNTS = ("tokens_total", "elapsed_ms", "created_at", "calls")
NEVER_BELOW_ZERO = (*COUNTS, "cost")


def find_below_zero(metrics: Metrics) -> str | None:
    """What was used up less than not at all, which would win where little is best."""
    for name in NEVER_BELOW_ZERO:
        if (getattr(metrics, name) or 0) < 0:
            return name
    return None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an evaluator found: before any weighing, the same for the same submission and seed."""

    metrics: Metrics = Metrics()
    dimensions: dict[str, float] = msgspec.field(default_factory=dict)
    """Raw scores, 0 to 1000, by the dimension's key; speed and efficiency are added by scoring."""
    warnings: tuple[dict[str, Any], ...] = ()
    """Each with message, severity and dimension: see `dimensions.SubmissionWarning`."""
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    sandbox: dict[str, Any] = msgspec.field(default_factory=dict)
    """Behind which walls code ran for it, and within which limits; empty when none did."""
    error: str | None = None
    """Why it could not be evaluated; the attempt then fails, and is never a silent 0."""
    reason: str | None = None
    """The same in the words of what failed, which may hold the truth: for organisers alone."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A scored attempt: the number, and all that a competitor needs to check it."""

    score: float | None
    result: Literal["win", "draw", "loss"] | None = None
    ranks: bool = False
    """Whether it may stand on the board: it succeeded, or is scored by dimensions."""
    metrics: Metrics = Metrics()
    dimensions: dict[str, float] = msgspec.field(default_factory=dict)
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    """Such as score_breakdown, submission_warnings, constraint_violations, harness_warning."""
    trajectory_level: TrajectoryLevel = "none"
    error: str | None = None
    origin: Origin | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is known of an attempt but its submission and trajectory, which can be large."""

    id: str
    challenge: str
    version: str
    agent: str
    number: int
    """1 for the agent's first attempt at this challenge."""
    state: State
    seed: int
    entered_at: float
    expires_at: float
    submitted_at: float | None = None
    scored_at: float | None = None
    verified: bool = False
    memoryless: bool = False
    waiting: str | None = None
    """Why it is still submitted: something of ours failed, and it is tried again."""
    voided_at: float | None = None
    """When an organiser made it void; None while it counts."""
    outcome: Outcome | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bulky part of an attempt."""

    submission: Any = None
    """A JSON value."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the competitor claims, such as its tokens; checked, never trusted."""
    trajectory: str | None = None
    """What the agent did, as JSON text."""
    reported: Metrics | None = None
    """The metrics that a trusted system reports; None for competitors."""
