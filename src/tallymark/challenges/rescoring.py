"""`Rescoring`: changes that a new rule makes, as data."""

from __future__ import annotations

import msgspec


class BoardPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Rank of an agent, its attempt, and the terms of its score."""

    rank: int
    attempt: str
    score: float | None
    result: str | None = None
    """Win, draw or loss."""
    terms: dict[str, float] = msgspec.field(default_factory=dict)
    """Contribution of each term of a formula."""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose rank changes. None stands for not being on the board."""

    agent: str
    before: BoardPlace | None
    after: BoardPlace | None


class RatingMove(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose Elo changes, because results of its matches do."""

    agent: str
    before: int
    after: int


class Undefined(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that the new rule gives no score."""

    attempt: str
    agent: str
    reason: str


class Rescoring(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that were, or would be, made. The lists are cut, the numbers are not."""

    challenge: str
    version: str
    """The new one, which later attempts are scored by."""
    rule: str
    attempts: int
    changed: int
    """Attempts whose score, result or error is another."""
    undefined: int
    reasons: tuple[Undefined, ...] = ()
    moved: int | None = None
    """Number of agents with another rank; only in a preview."""
    moves: tuple[Move, ...] = ()
    rated: int | None = None
    """Number of agents with another Elo; only in a preview."""
    ratings: tuple[RatingMove, ...] = ()
    """The agents that change most."""
