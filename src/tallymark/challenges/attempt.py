"""`Attempt`: one try by one agent, its states, and what is sent with it."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from tallymark.scoring import Origin

State = Literal["entered", "submitted", "scored", "failed", "expired", "withdrawn"]
"""States of an attempt. Rescoring may change scored to failed and back.

A trusted system that reports an attempt enters and submits it at once. A failed attempt was
evaluated but could not be scored: its score is None and `error` has the reason; rescoring may
succeed.
"""

TrajectoryLevel = Literal["none", "claimed", "consistent", "witnessed"]
LEVELS: tuple[TrajectoryLevel, ...] = get_args(TrajectoryLevel)
"""Levels of trust in a trajectory, lowest first.

`claimed` was sent along; `consistent` agrees with itself, with the claims and with the server's
clock, and could still be invented; `witnessed` reached the server while the attempt ran.
"""


def reaches(level: TrajectoryLevel, least: TrajectoryLevel) -> bool:
    """True if a trajectory has at least this level."""
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
        """Known metrics; success is always known."""
        return {"succeeded": self.succeeded, **msgspec.to_builtins(self)}


COUNTS = ("tokens_total", "elapsed_ms", "created_at", "calls")
NEVER_BELOW_ZERO = (*COUNTS, "cost")


def find_below_zero(metrics: Metrics) -> str | None:
    """Metrics that cannot be negative: less than nothing would win where low is best."""
    for name in NEVER_BELOW_ZERO:
        if (getattr(metrics, name) or 0) < 0:
            return name
    return None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Findings of an evaluator before any weighing: the same for the same submission and seed."""

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
    """The reason of a failure, which may quote the truth: for organisers only."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A scored attempt: the number, and all that a competitor needs to check it."""

    score: float | None
    result: Literal["win", "draw", "loss"] | None = None
    ranks: bool = False
    """True if it may rank: it succeeded, or is scored by dimensions."""
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
    """Reason why it is still waiting: the server failed, and will try again."""
    voided_at: float | None = None
    """When an organiser made it void; None while it counts."""
    outcome: Outcome | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bulky part of an attempt."""

    submission: Any = None
    """A JSON value."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """The competitor's claims, such as tokens; checked, never trusted."""
    trajectory: str | None = None
    """The trajectory as JSON."""
    reported: Metrics | None = None
    """The metrics that a trusted system reports; None for competitors."""
