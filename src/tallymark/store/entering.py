"""The rules of entering: when a challenge is open, and how many attempts an agent may make."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select

from tallymark.errors import InvalidInput
from tallymark.store import audit, match_log
from tallymark.store.attempt_rows import attempt_id, move_attempt
from tallymark.store.attempt_tables import attempts
from tallymark.store.audit import SYSTEM, AuditEntry
from tallymark.store.challenges import find_version_id
from tallymark.store.text import make_storable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from tallymark.challenges.definition import Challenge
    from tallymark.store.challenges import StoredChallenge

_DAY = 86_400
_LONGEST_NAME = 200


def check_agent(agent: str) -> None:
    """Refuses a name that could not be kept as it is."""
    if not (0 < len(agent) <= _LONGEST_NAME and make_storable(agent) == agent):
        raise InvalidInput(
            f"an agent cannot be called {agent[:_LONGEST_NAME]!r}",
            hint=f"give a name of 1 to {_LONGEST_NAME} characters",
        )


def find_open_attempt(connection: Connection, kept: StoredChallenge, agent: str) -> Row[Any] | None:
    """The attempt that an agent has entered and not yet ended."""
    mine = (attempts.c.challenge_id == kept.id) & (attempts.c.agent == agent)
    return connection.execute(
        select(attempts).where(mine, attempts.c.state == "entered")
    ).one_or_none()


def find_refusal(
    connection: Connection, kept: StoredChallenge, agent: str, at: float
) -> InvalidInput | None:
    """Why an agent may not make another attempt now; None when it may."""
    return _refuse_when_closed(kept.challenge, at) or _refuse_when_used_up(
        connection, kept, agent, at
    )


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
        "number": _count_made(connection, kept, agent) + 1,
        "state": "entered",
        "entered_at": at,
        "expires_at": expires_at,
        "verified": False,
    }
    attempt = connection.execute(insert(attempts).values(row | values).returning(*attempts.c)).one()
    entry = AuditEntry(at=at, actor=agent, event="entered", after="entered")
    audit.write_entry(connection, kept.tenant, kept.id, attempt.key, entry)
    return attempt


def is_late(attempt: Row[Any], at: float) -> bool:
    """Whether an open attempt's time is over."""
    return bool(attempt.state == "entered" and at > attempt.expires_at)


def expire(connection: Connection, attempt: Row[Any], at: float) -> bool:
    """Ends an open attempt whose time is over, which is a loss; False if it had ended already."""
    entry = AuditEntry(at=at, actor=SYSTEM, event="expired")
    if not move_attempt(connection, attempt, "expired", entry):
        return False
    match_log.record_match(connection, attempt, "loss", verified=False, at=at)
    return True


def explain_expiry(attempt: Row[Any]) -> InvalidInput:
    """The refusal of what comes too late."""
    return InvalidInput(
        f"attempt {attempt_id(attempt.key)} expired at {format_moment(attempt.expires_at)}",
        hint="enter the challenge again",
    )


def format_moment(at: float) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _refuse_when_closed(challenge: Challenge, at: float) -> InvalidInput | None:
    name, opens_at, closes_at = challenge.name, challenge.opens_at, challenge.closes_at
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
    made = _count_made(connection, kept, agent)
    name = kept.challenge.name
    if most is not None and made >= most:
        return InvalidInput(
            f"{agent!r} has made all of its {most} attempts at {name!r}",
            hint="the challenge allows no more",
        )
    if per_day is not None and made >= per_day:
        # Numbers grow with time: if the attempt so many ago was made today, today's are used up.
        number = made - per_day + 1
        day = at // _DAY
        if per_day == 0 or _read_entered_at(connection, kept, agent, number) // _DAY >= day:
            return InvalidInput(
                f"{agent!r} has made its {per_day} attempts of today at {name!r}",
                hint=f"try again from {format_moment((day + 1) * _DAY)}",
            )
    return None


def _count_made(connection: Connection, kept: StoredChallenge, agent: str) -> int:
    mine = (attempts.c.challenge_id == kept.id) & (attempts.c.agent == agent)
    query = select(attempts.c.number).where(mine).order_by(attempts.c.number.desc()).limit(1)
    return connection.scalar(query) or 0


def _read_entered_at(
    connection: Connection, kept: StoredChallenge, agent: str, number: int
) -> float:
    mine = (attempts.c.challenge_id == kept.id) & (attempts.c.agent == agent)
    query = select(attempts.c.entered_at).where(mine, attempts.c.number == number)
    return float(connection.execute(query).scalar_one())
