"""Finishing an attempt: score, history, board, match, rating and audit, all or none, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, update

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import board_rows, match_log, score_rows
from tallymark.store.attempt_rows import attempt_id, move_attempt
from tallymark.store.attempt_tables import attempt_details, attempt_scores
from tallymark.store.audit import SYSTEM, AuditEntry
from tallymark.store.challenges import find_challenge_by_id
from tallymark.store.text import json_text

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from tallymark.challenges.attempt import Evaluation, Outcome, State
    from tallymark.store.challenges import StoredChallenge


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
    """Scores a submitted attempt; False when that was already done."""
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
