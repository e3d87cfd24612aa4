"""Entering a challenge: opening times, attempt quotas and the deadline of the attempt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallymark.errors import Conflict
from tallymark.store.contests.attempt_rows import format_moment

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.quick_statements import QuickStatements

_DAY = 86_400
_ENTRANT = """
    SELECT (SELECT number FROM attempts AS own
            WHERE own.challenge_id = c.id AND own.agent = c.agent ORDER BY number DESC LIMIT 1),
           (SELECT number FROM attempts AS own
            WHERE own.challenge_id = c.id AND own.agent = c.agent AND own.voided_at IS NULL
            ORDER BY number LIMIT 1),
           (SELECT key FROM attempts AS own
            WHERE own.challenge_id = c.id AND own.agent = c.agent AND own.state = 'entered')
    FROM (SELECT CAST(? AS BIGINT) AS id, CAST(? AS TEXT) AS agent) AS c
"""
# Voided attempts are given back, and the first one that waits for the server is free. Only the
# first: all waiting attempts are scored in the end, so an agent that could make attempts wait would
# have as many as it liked.
_COUNTS = """
    own.challenge_id = ? AND own.agent = ? AND own.voided_at IS NULL AND (
        NOT EXISTS (SELECT 1 FROM attempt_waits AS wait WHERE wait.attempt = own.key)
        OR EXISTS (
            SELECT 1 FROM attempts AS earlier
            JOIN attempt_waits AS wait ON wait.attempt = earlier.key
            WHERE earlier.challenge_id = own.challenge_id AND earlier.agent = own.agent
              AND earlier.number < own.number
        )
    )
"""
_COUNT = f"SELECT count(*) FROM attempts AS own WHERE {_COUNTS}"  # noqa: S608  our own words
_NTH = f"""
    SELECT own.entered_at FROM attempts AS own WHERE {_COUNTS}
    ORDER BY own.number DESC LIMIT 1 OFFSET ?
"""  # noqa: S608


@dataclass(slots=True)
class Entrant:
    """One agent at one challenge."""

    last_number: int
    first_number: int | None
    """Lowest number among its attempts that are not void."""
    open_key: int | None


def read_entrant(statements: QuickStatements, challenge_id: int, agent: str) -> Entrant:
    """Read what an agent has done at a challenge."""
    ((last, first, open_key),) = statements.read(_ENTRANT, challenge_id, agent)
    return Entrant(last or 0, first, open_key)


def check_entry(statements: QuickStatements, kept: StoredChallenge, agent: str, at: float) -> None:
    """Refuse an attempt that the agent may not make now."""
    _refuse_when_closed(kept, at)
    _refuse_when_used_up(statements, kept, agent, at)


def find_deadline(challenge: Challenge, at: float) -> float:
    """Deadline of an attempt that is entered now."""
    expires_at = at + challenge.time_limit_s
    # Closing ends what is open: an attempt never outlives its challenge.
    return expires_at if challenge.closes_at is None else min(expires_at, challenge.closes_at)


def _refuse_when_closed(kept: StoredChallenge, at: float) -> None:
    challenge = kept.challenge
    name, opens_at, closes_at = challenge.name, challenge.opens_at, challenge.closes_at
    if kept.closed_at is not None:
        raise Conflict(f"challenge {name!r} is closed", hint="its organisers have closed it")
    if opens_at is not None and at < opens_at:
        raise Conflict(
            f"challenge {name!r} is not open yet", hint=f"it opens at {format_moment(opens_at)}"
        )
    if closes_at is not None and at >= closes_at:
        raise Conflict(
            f"challenge {name!r} is closed", hint=f"it closed at {format_moment(closes_at)}"
        )


def _refuse_when_used_up(
    statements: QuickStatements, kept: StoredChallenge, agent: str, at: float
) -> None:
    most, per_day = kept.challenge.attempts, kept.challenge.attempts_per_day
    name = kept.challenge.name
    if most is not None and statements.read(_COUNT, kept.id, agent)[0][0] >= most:
        made = "its only attempt" if most == 1 else f"all of its {most} attempts"
        hint = "the challenge allows no further attempt"
        raise Conflict(f"{agent!r} has made {made} at {name!r}", hint=hint)
    if per_day is not None:
        # If the attempt `per_day` attempts ago was made today, today's are used up.
        day = at // _DAY
        if per_day == 0 or _find_entered_at(statements, kept, agent, per_day) // _DAY >= day:
            raise Conflict(
                f"{agent!r} has made its {per_day} attempts of today at {name!r}",
                hint=f"try again from {format_moment((day + 1) * _DAY)}",
            )


def _find_entered_at(
    statements: QuickStatements, kept: StoredChallenge, agent: str, nth: int
) -> float:
    """Time at which the nth attempt from the last was entered; -inf if there are fewer."""
    rows = statements.read(_NTH, kept.id, agent, nth - 1)
    return float(rows[0][0]) if rows else -math.inf
