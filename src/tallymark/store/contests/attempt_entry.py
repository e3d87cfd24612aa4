"""How an attempt begins: who may enter, when, and how often; its number and its deadline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sqlalchemy import exists, func, insert, select

from tallymark.errors import InvalidInput
from tallymark.store.contests import audit_log
from tallymark.store.contests.attempt_rows import format_moment
from tallymark.store.contests.attempt_tables import attempt_waits, attempts
from tallymark.store.contests.audit_log import AuditEntry
from tallymark.store.contests.challenges import find_version_id

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row

    from tallymark.store.contests.challenges import StoredChallenge

_DAY = 86_400


def find_open_attempt(connection: Connection, kept: StoredChallenge, agent: str) -> Row[Any] | None:
    """The attempt that an agent has entered and not yet ended."""
    query = select(attempts).where(_is_own(kept, agent), attempts.c.state == "entered")
    return connection.execute(query).one_or_none()


def find_refusal(
    connection: Connection, kept: StoredChallenge, agent: str, at: float
) -> InvalidInput | None:
    """Why an agent may not make another attempt now; None when it may."""
    closed = _refuse_when_closed(kept, at)
    return closed or _refuse_when_used_up(connection, kept, agent, at)


def insert_attempt(
    connection: Connection, kept: StoredChallenge, agent: str, at: float, **values: Any
) -> Row[Any]:
    """Stores the agent's next attempt, entered now, and writes it down."""
    challenge = kept.challenge
    expires_at = at + challenge.time_limit_s
    # Closing ends what is open: an attempt never outlives its challenge.
    if challenge.closes_at is not None:
        expires_at = min(expires_at, challenge.closes_at)
    row = {
        "tenant": kept.tenant,
        "challenge_id": kept.id,
        "version_id": find_version_id(connection, kept, challenge.version),
        "agent": agent,
        "number": _find_last_number(connection, kept, agent) + 1,
        "state": "entered",
        "entered_at": at,
        "expires_at": expires_at,
        "verified": False,
    }
    attempt = connection.execute(insert(attempts).values(row | values).returning(*attempts.c)).one()
    entry = AuditEntry(at=at, actor=agent, event="entered", after="entered")
    audit_log.write_entry(connection, kept.tenant, kept.id, attempt.key, entry)
    return attempt


def _refuse_when_closed(kept: StoredChallenge, at: float) -> InvalidInput | None:
    challenge = kept.challenge
    name, opens_at, closes_at = challenge.name, challenge.opens_at, challenge.closes_at
    if kept.closed_at is not None:
        return InvalidInput(f"challenge {name!r} is closed", hint="its organisers have closed it")
    if opens_at is not None and at < opens_at:
        return InvalidInput(
            f"challenge {name!r} is not open yet", hint=f"it opens at {format_moment(opens_at)}"
        )
    if closes_at is not None and at >= closes_at:
        return InvalidInput(
            f"challenge {name!r} is closed", hint=f"it closed at {format_moment(closes_at)}"
        )
    return None


def _refuse_when_used_up(
    connection: Connection, kept: StoredChallenge, agent: str, at: float
) -> InvalidInput | None:
    most, per_day = kept.challenge.attempts, kept.challenge.attempts_per_day
    name = kept.challenge.name
    if most is not None and _count_attempts(connection, kept, agent) >= most:
        made = "its only attempt" if most == 1 else f"all of its {most} attempts"
        hint = "the challenge allows no more"
        return InvalidInput(f"{agent!r} has made {made} at {name!r}", hint=hint)
    if per_day is not None:
        # If the attempt so many ago was made today, today's are used up.
        day = at // _DAY
        if per_day == 0 or _read_entered_at(connection, kept, agent, per_day) // _DAY >= day:
            return InvalidInput(
                f"{agent!r} has made its {per_day} attempts of today at {name!r}",
                hint=f"try again from {format_moment((day + 1) * _DAY)}",
            )
    return None


def _find_last_number(connection: Connection, kept: StoredChallenge, agent: str) -> int:
    query = select(attempts.c.number).where(_is_own(kept, agent))
    return connection.scalar(query.order_by(attempts.c.number.desc()).limit(1)) or 0


def _count_attempts(connection: Connection, kept: StoredChallenge, agent: str) -> int:
    """How many the agent has made that are held against it: see `_counts`."""
    query = select(func.count()).where(_is_own(kept, agent), _counts())
    return connection.scalar(query) or 0


def _read_entered_at(connection: Connection, kept: StoredChallenge, agent: str, nth: int) -> float:
    """When the agent entered the attempt so many ago, 1 being its last; minus infinity if never."""
    query = select(attempts.c.entered_at).where(_is_own(kept, agent), _counts())
    found = connection.scalar(query.order_by(attempts.c.number.desc()).offset(nth - 1).limit(1))
    return -math.inf if found is None else float(found)


def _counts() -> ColumnElement[bool]:
    """What an organiser made void is given back, and the first that waits because of us is free.

    The first alone: all that waits is scored in the end, and who could make attempts wait would
    have as many as it liked.
    """
    earlier = attempts.alias()
    waits = exists().where(attempt_waits.c.attempt == attempts.c.key)
    another = exists().where(
        earlier.c.challenge_id == attempts.c.challenge_id,
        earlier.c.agent == attempts.c.agent,
        earlier.c.number < attempts.c.number,
        exists().where(attempt_waits.c.attempt == earlier.c.key),
    )
    return attempts.c.voided_at.is_(None) & (~waits | another)


def _is_own(kept: StoredChallenge, agent: str) -> ColumnElement[bool]:
    return (attempts.c.challenge_id == kept.id) & (attempts.c.agent == agent)
