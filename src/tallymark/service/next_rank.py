"""The next better place on a board, by dimensions: numbers alone, no words of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tallymark.challenges.dimension_scores import weighted_dimensions

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.strategies import Standing
    from tallymark.store import Store


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of the attempt, and of the one above it."""

    key: str
    label: str
    mine: float
    """0 to 1000, not weighed."""
    theirs: float
    points: float
    """Their lead by dimension, weighted."""


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The next agent above on a board, and its lead."""

    agent: str
    attempt: str | None
    rank: int
    value: float | None
    gap: float | None
    """Between the values that the board is ordered by; None where one has none."""
    leads: list[Lead]
    """The largest first."""


class Place(NamedTuple):
    """Standing of an attempt's agent."""

    mine: Standing | None
    """None if the agent is not on the board."""
    above: Above | None
    """None unless the attempt is its agent's best and another agent is above."""

    @property
    def rank(self) -> int | None:
        return None if self.mine is None else self.mine.rank

    @property
    def best(self) -> str | None:
        return None if self.mine is None else self.mine.attempt


def find_place(store: Store, challenge: Challenge, attempt: Attempt, *, public: bool) -> Place:
    """Find the standing of an attempt's agent, and who stands directly above.

    An attempt without an outcome has no place: the board may show another one of its agent.
    """
    if attempt.outcome is None:
        return Place(None, None)
    mine, theirs = store.boards.above(challenge.name, attempt.agent, as_frozen=public)
    if mine is None or theirs is None or mine.attempt != attempt.id:
        return Place(mine, None)
    known = mine.value is not None and theirs.value is not None
    above = Above(
        agent=theirs.agent,
        attempt=theirs.attempt,
        rank=theirs.rank,
        value=theirs.value,
        gap=(theirs.value or 0.0) - (mine.value or 0.0) if known else None,
        leads=_list_leads(store, challenge, attempt, theirs, public=public),
    )
    return Place(mine, above)


def _list_leads(
    store: Store, challenge: Challenge, attempt: Attempt, theirs: Standing, *, public: bool
) -> list[Lead]:
    if not challenge.scoring.dimensions or attempt.outcome is None:
        return []
    best = str(theirs.attempt)
    found = store.contest_stats.numbers([best], as_frozen=public).get(best)
    if found is None or found.by_earlier_rule:
        return []
    own, other = attempt.outcome.dimensions, found.dimensions
    leads = [
        Lead(
            key=each.key,
            label=each.dimension.label,
            mine=own.get(each.key, 0.0),
            theirs=other.get(each.key, 0.0),
            points=(other.get(each.key, 0.0) - own.get(each.key, 0.0)) * float(each.weight),
        )
        for each in weighted_dimensions(challenge.scoring.dimensions)
    ]
    return sorted(leads, key=lambda each: -each.points)
