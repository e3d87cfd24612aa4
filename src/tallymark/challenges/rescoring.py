"""`Rescoring`: changes that a new rule makes, as data."""

from __future__ import annotations

import msgspec


class BoardPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an agent stands, with which attempt and why it has the score that it has."""

    rank: int
    attempt: str
    score: float | None
    result: str | None = None
    """Win, draw or loss."""
    terms: dict[str, float] = msgspec.field(default_factory=dict)
    """What each term of a formula contributes."""


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
    """Agents whose rank is another; only a preview tells."""
    moves: tuple[Move, ...] = ()
    rated: int | None = None
    """Agents whose Elo is another; only a preview tells."""
    ratings: tuple[RatingMove, ...] = ()
    """Of those the ones that change most."""
