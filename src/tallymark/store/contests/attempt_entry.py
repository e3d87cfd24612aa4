"""How an attempt begins: who may enter, when, and how often; and its deadline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tallymark.errors import Conflict
from tallymark.store.contests.attempt_rows import format_moment

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.batch_memory import Entrant
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.quick_statements import QuickStatements

_DAY = 86_400


def find_refusal(
    statements: QuickStatements, kept: StoredChallenge, agent: str, entrant: Entrant, at: float
) -> Conflict | None:
    """Why an agent may not make another attempt now; None when it may."""
    closed = _refuse_when_closed(kept, at)
    return closed or _refuse_when_used_up(statements, kept, agent, entrant, at)


def find_deadline(challenge: Challenge, at: float) -> float:
    """When the time of an attempt is over that is entered now."""
    expires_at = at + challenge.time_limit_s
    # Closing ends what is open: an attempt never outlives its challenge.
    return expires_at if challenge.closes_at is None else min(expires_at, challenge.closes_at)


def _refuse_when_closed(kept: StoredChallenge, at: float) -> Conflict | None:
    challenge = kept.challenge
    name, opens_at, closes_at = challenge.name, challenge.opens_at, challenge.closes_at
    if kept.closed_at is not None:
        return Conflict(f"challenge {name!r} is closed", hint="its organisers have closed it")
    if opens_at is not None and at < opens_at:
        return Conflict(
            f"challenge {name!r} is not open yet", hint=f"it opens at {format_moment(opens_at)}"
        )
    if closes_at is not None and at >= closes_at:
        return Conflict(
            f"challenge {name!r} is closed", hint=f"it closed at {format_moment(closes_at)}"
        )
    return None


def _refuse_when_used_up(
    statements: QuickStatements, kept: StoredChallenge, agent: str, entrant: Entrant, at: float
) -> Conflict | None:
    most, per_day = kept.challenge.attempts, kept.challenge.attempts_per_day
    name = kept.challenge.name
    if most is not None and _count_attempts(statements, kept, agent, entrant) >= most:
        made = "its only attempt" if most == 1 else f"all of its {most} attempts"
        hint = "the challenge allows no more"
        return Conflict(f"{agent!r} has made {made} at {name!r}", hint=hint)
    if per_day is not None:
        # If the attempt so many ago was made today, today's are used up.
        day = at // _DAY
        if per_day == 0 or _find_entered_at(statements, kept, agent, entrant) // _DAY >= day:
            return Conflict(
                f"{agent!r} has made its {per_day} attempts of today at {name!r}",
                hint=f"try again from {format_moment((day + 1) * _DAY)}",
            )
    return None


def _count_attempts(
    statements: QuickStatements, kept: StoredChallenge, agent: str, entrant: Entrant
) -> int:
    """How many the agent has made that are held against it: see `_COUNTS`."""
    if entrant.stored_count is None:
        query = f"SELECT count(*) FROM attempts AS own WHERE {_COUNTS}"  # noqa: S608  our words
        entrant.stored_count = int(statements.read(query, kept.id, agent)[0][0])
    return entrant.stored_count + len(entrant.entered)


def _find_entered_at(
    statements: QuickStatements, kept: StoredChallenge, agent: str, entrant: Entrant
) -> float:
    """When the attempt was entered that is as many ago as a day has; minus infinity if never."""
    nth = kept.challenge.attempts_per_day or 0
    if nth <= len(entrant.entered):
        return entrant.entered[-nth]
    query = f"""
        SELECT own.entered_at FROM attempts AS own WHERE {_COUNTS}
        ORDER BY own.number DESC LIMIT 1 OFFSET ?
    """  # noqa: S608
    rows = statements.read(query, kept.id, agent, nth - len(entrant.entered) - 1)
    return float(rows[0][0]) if rows else -math.inf


# What an organiser made void is given back, and the first that waits because of us is free. The
# first alone: all that waits is scored in the end, and who could make attempts wait would have as
# many as it liked.
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
