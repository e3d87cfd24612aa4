"""What the one above did better: by dimension, in numbers; in words when the challenge is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.app.sight import sees_words
from tallymark.web.attempt_words import Warned, list_warnings, write_details
from tallymark.web.board_rows import list_board

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.web.page import Visit


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
    """It has the same value, and was earlier."""
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


def find_above(visit: Visit, challenge: Challenge, attempt: Attempt) -> Above | None:
    """The next better place on the board that the visitor sees."""
    store = visit.app.store
    near = store.boards.around(attempt.challenge, attempt.agent, each=1, public=visit.public)
    rows = list_board(visit, challenge, near)
    mine = next((row for row in rows if row.agent == attempt.agent), None)
    if mine is None or not rows or rows[0] is mine:
        return None
    theirs = rows[0]
    known = mine.value is not None and theirs.value is not None
    leads = [
        Lead(
            label=other.label,
            color=other.color,
            again=other.again,
            mine=own.score,
            theirs=other.score,
            points=other.weighted - own.weighted,
        )
        for own, other in zip(mine.parts, theirs.parts, strict=True)
    ]
    leads.sort(key=lambda each: -each.points)
    other = store.attempts.get(theirs.attempt, public=visit.public)
    told = sees_words(visit.services, visit.caller, other)
    details = other.outcome.details if told and other.outcome is not None else {}
    return Above(
        agent=theirs.agent,
        name=theirs.name,
        attempt=theirs.attempt,
        shown=theirs.shown,
        mine=mine.shown,
        gap=(theirs.value or 0.0) - (mine.value or 0.0) if known else None,
        tied=known and theirs.value == mine.value,
        leads=leads,
        reach=max((abs(each.points) for each in leads), default=0.0) or 1.0,
        told=told,
        warnings=list(list_warnings(details)),
        details=write_details(details),
    )
