"""The next better place on a board, by dimensions: numbers alone, no words of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.challenges.dimension_scores import weighted_dimensions

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.strategies import Standing
    from tallymark.store import Store


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of mine, and of the one above."""

    key: str
    label: str
    mine: float
    """0 to 1000, not weighed."""
    theirs: float
    points: float
    """What they are ahead by, weighed."""


class Rival(msgspec.Struct, frozen=True, kw_only=True):
    """Who stands above, and by what."""

    standing: Standing
    mine: Standing
    gap: float | None
    """Between the values that the board is ordered by; None where one has none."""
    leads: list[Lead]
    """The largest first."""


class Place(NamedTuple):
    """Standing of an attempt's agent."""

    mine: Standing | None
    """None if the agent is not on the board."""
    above: Rival | None
    """None unless the attempt is its agent's best and somebody stands above."""


def find_place(store: Store, challenge: Challenge, attempt: Attempt, *, public: bool) -> Place:
    """Find the standing of an attempt's agent, and the rival directly above."""
    near = store.boards.around(challenge.name, attempt.agent, each=1, public=public)
    mine = next((each for each in near if each.agent == attempt.agent), None)
    if mine is None or near[0] is mine or mine.attempt != attempt.id:
        return Place(mine, None)
    theirs = near[0]
    known = mine.value is not None and theirs.value is not None
    above = Rival(
        standing=theirs,
        mine=mine,
        gap=(theirs.value or 0.0) - (mine.value or 0.0) if known else None,
        leads=_list_leads(store, challenge, attempt, theirs, public=public),
    )
    return Place(mine, above)


def describe_place(
    store: Store, challenge: Challenge, attempt: Attempt, *, public: bool
) -> dict[str, Any]:
    """An agent's place on the board as JSON, and who stands above where it is this attempt's."""
    mine, rival = find_place(store, challenge, attempt, public=public)
    above = None
    if rival is not None:
        theirs = rival.standing
        above = {"agent": theirs.agent, "rank": theirs.rank, "value": theirs.value}
        above |= {"gap": rival.gap, "leads": msgspec.to_builtins(rival.leads)}
    rank, best = (None, None) if mine is None else (mine.rank, mine.attempt)
    return {"rank": rank, "best": best, "above": above}


def _list_leads(
    store: Store, challenge: Challenge, attempt: Attempt, theirs: Standing, *, public: bool
) -> list[Lead]:
    if not challenge.scoring.dimensions or attempt.outcome is None:
        return []
    found = store.figures.numbers([theirs.attempt], public=public).get(theirs.attempt)
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
