"""What the one above did better: by dimension, in numbers; in words when the challenge is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.web.attempt_words import Warned, list_warnings, write_details
from tallymark.web.board_rows import list_dimensions, write_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.service.rivals import Place
    from tallymark.web.visit import Visit


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension here, and with the one above."""

    label: str
    color: str
    again: bool
    mine: float
    theirs: float
    points: float
    """What they are ahead by, weighed."""


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The next better place."""

    agent: str
    name: str
    attempt: str
    shown: str
    mine: str
    gap: float | None
    tied: bool
    """It has the same value, or as little as none, and was earlier."""
    scored: bool
    """Whether there is a value to be better than."""
    leads: list[Lead]
    reach: float
    """The largest lead, for bars."""
    told: bool
    """Whether what was said of their answer may be read."""
    warnings: list[Warned]
    details: str

    @property
    def total(self) -> float:
        """Their lead in points, all dimensions together."""
        return sum(each.points for each in self.leads)


def describe_above(visit: Visit, challenge: Challenge, place: Place) -> Above | None:
    """Describe who stands directly above, on the board that the visitor sees."""
    rival, mine = place.above, place.mine
    if rival is None or mine is None:
        return None
    looks = {each.key: each for each in list_dimensions(challenge)}
    leads = [
        Lead(
            label=each.label,
            color=looks[each.key].color,
            again=looks[each.key].again,
            mine=each.mine,
            theirs=each.theirs,
            points=each.points,
        )
        for each in rival.leads
    ]
    other = visit.tally.attempts.view(str(rival.attempt), not visit.public)
    told, outcome = other.shows_words, other.attempt.outcome
    details = outcome.details if told and outcome is not None else {}
    return Above(
        agent=rival.agent,
        name=visit.tally.agents.find_names([rival.agent]).get(rival.agent, rival.agent),
        attempt=str(rival.attempt),
        shown=write_value(challenge, rival.value),
        mine=write_value(challenge, mine.value),
        gap=rival.gap,
        tied=mine.value == rival.value,
        scored=mine.value is not None,
        leads=leads,
        reach=max((abs(each.points) for each in leads), default=0.0) or 1.0,
        told=told,
        warnings=list(list_warnings(details)),
        details=write_details(details),
    )
