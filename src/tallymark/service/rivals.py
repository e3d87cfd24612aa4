"""The next better place on a board, by dimensions: numbers alone, no words of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.dimension_scores import weighted_dimensions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.strategies import Standing
    from tallymark.store import Store
    from tallymark.store.contests.figures import AttemptNumbers


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


def find_rival(store: Store, challenge: Challenge, agent: str, *, public: bool) -> Rival | None:
    """Who stands directly above an agent; None for the first, and for who is not on the board."""
    near = store.boards.around(challenge.name, agent, each=1, public=public)
    mine = next((each for each in near if each.agent == agent), None)
    if mine is None or near[0] is mine:
        return None
    theirs = near[0]
    known = mine.value is not None and theirs.value is not None
    return Rival(
        standing=theirs,
        mine=mine,
        gap=(theirs.value or 0.0) - (mine.value or 0.0) if known else None,
        leads=_list_leads(store, challenge, mine, theirs, public=public),
    )


def describe_place(store: Store, attempt: Attempt, *, public: bool) -> dict[str, Any]:
    """An agent's place on the board as JSON, and who stands above where it is this attempt's."""
    standing = store.boards.standing(attempt.challenge, attempt.agent, public=public)
    told: dict[str, Any] = {"rank": None, "best": None, "above": None}
    if standing is not None:
        told |= {"rank": standing.rank, "best": standing.attempt}
    if standing is None or standing.attempt != attempt.id:
        return told
    challenge = store.challenges.find(attempt.challenge).challenge
    rival = find_rival(store, challenge, attempt.agent, public=public)
    if rival is not None:
        theirs = rival.standing
        above = {"agent": theirs.agent, "rank": theirs.rank, "value": theirs.value}
        told["above"] = above | {"gap": rival.gap, "leads": msgspec.to_builtins(rival.leads)}
    return told


def _list_leads(
    store: Store, challenge: Challenge, mine: Standing, theirs: Standing, *, public: bool
) -> list[Lead]:
    if not challenge.scoring.dimensions:
        return []
    numbers = store.figures.numbers([mine.attempt, theirs.attempt], public=public)
    if any(each.by_earlier_rule for each in numbers.values()):
        return []
    own, other = _get_scores(numbers, mine), _get_scores(numbers, theirs)
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


def _get_scores(numbers: Mapping[str, AttemptNumbers], standing: Standing) -> dict[str, float]:
    found = numbers.get(standing.attempt)
    return {} if found is None else found.dimensions
