"""How an attempt begins and ends: entered by the rules, expired, or finished once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store.column_types import json_text, make_storable
from tallymark.store.contests import audit_log, board_rows, match_log, score_rows
from tallymark.store.contests.attempt_rows import attempt_id, move_attempt
from tallymark.store.contests.attempt_tables import attempt_details, attempt_scores, attempts
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import find_challenge_by_id, find_version_id

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row

    from tallymark.challenges.attempt import Evaluation, Outcome, State
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.challenges import StoredChallenge

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
    query = select(attempts).where(_is_own(kept, agent), attempts.c.state == "entered")
    return connection.execute(query).one_or_none()


def find_refusal(
    connection: Connection, kept: StoredChallenge, agent: str, at: float
) -> InvalidInput | None:
    """Why an agent may not make another attempt now; None when it may."""
    closed = _refuse_when_closed(kept.challenge, at)
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
        "number": _count_attempts(connection, kept, agent) + 1,
        "state": "entered",
        "entered_at": at,
        "expires_at": expires_at,
        "verified": False,
    }
    attempt = connection.execute(insert(attempts).values(row | values).returning(*attempts.c)).one()
    entry = AuditEntry(at=at, actor=agent, event="entered", after="entered")
    audit_log.write_entry(connection, kept.tenant, kept.id, attempt.key, entry)
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
    made = _count_attempts(connection, kept, agent)
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


def _count_attempts(connection: Connection, kept: StoredChallenge, agent: str) -> int:
    # Numbers have no gaps, so the last one is the count.
    query = select(attempts.c.number).where(_is_own(kept, agent))
    return connection.scalar(query.order_by(attempts.c.number.desc()).limit(1)) or 0


def _read_entered_at(
    connection: Connection, kept: StoredChallenge, agent: str, number: int
) -> float:
    query = select(attempts.c.entered_at).where(_is_own(kept, agent), attempts.c.number == number)
    return float(connection.execute(query).scalar_one())


def _is_own(kept: StoredChallenge, agent: str) -> ColumnElement[bool]:
    return (attempts.c.challenge_id == kept.id) & (attempts.c.agent == agent)


@dataclass(frozen=True, slots=True)
class Finish:
    """How an attempt ended."""

    evaluation: Evaluation
    outcome: Outcome
    at: float
    verified: bool
    revision: int | None
    """The rule it was scored by; None when that need not be checked."""


def finish(connection: Connection, attempt: Row[Any], how: Finish) -> bool:
    """Scores a submitted attempt; False when that was already done.

    Score, history, board, match, rating and audit change in the caller's transaction: all or none.
    """
    # Locks are always taken in this order, the challenge's, then the agent's rating (`match_log`),
    # so that nobody waits in a circle.
    kept = find_challenge_by_id(connection, attempt.challenge_id, lock=True)
    if attempt.state not in ("submitted", "scored", "failed"):
        raise InvalidInput(
            f"attempt {attempt_id(attempt.key)} is {attempt.state}, and cannot be scored",
            hint="only a submitted attempt can",
        )
    # The row was read before the lock: the move compares the state again, and one caller succeeds.
    if attempt.state != "submitted" or not _move_to_end(connection, attempt, how):
        return False
    # Only for who would score it; raising undoes the move, and the attempt is pending as before.
    if how.revision not in (None, kept.revision):
        raise WorkFailed(
            f"the scoring of challenge {kept.challenge.name!r} changed while attempt"
            f" {attempt_id(attempt.key)} was scored",
            hint="score it again",
        )
    # Before the board moves: the public keeps it as it was at the freeze.
    board_rows.freeze_if_due(connection, kept, how.at)
    row = _store_score(connection, kept, attempt, how)
    if how.outcome.error is None:
        # Before `put_attempt`, whose new rows count this try themselves.
        board_rows.count_try(connection, kept, attempt.agent)
    if how.outcome.ranks:
        board_rows.put_attempt(connection, kept, row)
    if how.outcome.error is None and how.outcome.result is not None:
        result = how.outcome.result
        match_log.record_match(connection, attempt, result, verified=how.verified, at=how.at)
    return True


def _move_to_end(connection: Connection, attempt: Row[Any], how: Finish) -> bool:
    outcome = how.outcome
    state: State = "scored" if outcome.error is None else "failed"
    note = {"score": outcome.score} if outcome.error is None else {"error": outcome.error}
    entry = AuditEntry(at=how.at, actor=SYSTEM, event=state, note=note)
    return move_attempt(connection, attempt, state, entry, scored_at=how.at, verified=how.verified)


def _store_score(
    connection: Connection, kept: StoredChallenge, attempt: Row[Any], how: Finish
) -> dict[str, Any]:
    row = score_rows.score_row(
        how.outcome,
        challenge_id=kept.id,
        agent=attempt.agent,
        attempt=attempt.key,
        tenant=kept.tenant,
        scoring=score_rows.find_or_add_scoring(connection, kept, how.outcome, how.at),
        submitted_at=attempt.submitted_at,
        number=attempt.number,
    )
    connection.execute(insert(attempt_scores).values(row))
    score_rows.remember_score(connection, row, how.at)
    details = json_text(how.outcome.details) if how.outcome.details else None
    texts = {"evaluation": json_text(how.evaluation), "details": details}
    mine = attempt_details.c.attempt == attempt.key
    connection.execute(update(attempt_details).where(mine).values(texts))
    return row
