"""Scores in the database: given once, the rows that boards and rescoring read, and the history."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import insert, select, update

from tallymark.errors import InvalidInput, RuleChanged
from tallymark.scoring import Origin
from tallymark.store.column_types import json_text, make_storable
from tallymark.store.contests import boards, matches, pauses, score_rules, whole_boards
from tallymark.store.contests.attempt_rows import move_attempt, stop_waiting
from tallymark.store.contests.attempt_tables import (
    attempt_details,
    attempt_id,
    attempt_scores,
    attempts,
    is_own_score,
    score_history,
    scorings,
)
from tallymark.store.contests.audit_log import HIDDEN, SYSTEM, AuditEntry
from tallymark.store.contests.challenges import find_challenge_by_id, lock_challenge
from tallymark.store.contests.formula_scores import score_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from tallymark.challenges.attempt import Evaluation, Outcome, State
    from tallymark.store.contests.challenges import StoredChallenge

_BEYOND = 2**63
_decode_origin = msgspec.json.Decoder(Origin).decode


class ScoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A score that an attempt was given: when, and by which rule."""

    at: float
    score: float | None
    result: str | None = None
    error: str | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """How an attempt ended."""

    evaluation: Evaluation
    outcome: Outcome
    at: float
    verified: bool
    ruling: StoredChallenge | None
    """The rule it was scored by, as it was read; None when that need not be checked."""


def finish(connection: Connection, attempt: Row[Any], how: Finish) -> bool:
    """Scores a submitted attempt; False when that was already done.

    Score, history, board, match, rating and audit change in the caller's transaction: all or none.
    """
    # Locks are always taken in this order, the challenge's, then the agent's rating (`matches`),
    # so that nobody waits in a circle.
    if how.ruling is None:
        kept = find_challenge_by_id(connection, attempt.challenge_id, lock=True)
    else:
        kept = lock_challenge(connection, how.ruling)
    if attempt.state not in ("submitted", "scored", "failed"):
        raise InvalidInput(
            f"attempt {attempt_id(attempt.key)} is {attempt.state}, and cannot be scored",
            hint="only a submitted attempt can",
        )
    # The row was read before the lock: the move compares the state again, and one caller succeeds.
    if attempt.state != "submitted" or not _move_to_end(connection, attempt, how):
        return False
    # Only for who would score it; raising undoes the move, and the attempt is pending as before.
    if how.ruling is not None and how.ruling.revision != kept.revision:
        raise RuleChanged(
            f"the scoring of challenge {kept.challenge.name!r} changed while attempt"
            f" {attempt_id(attempt.key)} was scored",
            hint="score it again",
        )
    if kept.freezes_at is not None:
        # Before the board moves: the public keeps it as it was at the freeze.
        whole_boards.freeze_if_due(connection, kept, how.at)
    stop_waiting(connection, attempt.key)
    if kept.challenge.scoring.plugin is not None:
        pauses.count_deadly(connection, kept, attempt.agent, how.outcome, how.at)
    row = _store_score(connection, kept, attempt, how)
    # Under the lock: it may have been made void since its row was read.
    void = connection.scalar(select(attempts.c.voided_at).where(attempts.c.key == attempt.key))
    if how.outcome.error is None and void is None:
        # Before `put_attempt`, whose new rows count this try themselves.
        boards.count_try(connection, kept, attempt.agent)
    if how.outcome.ranks and void is None:
        boards.put_attempt(connection, kept, row)
    matches.follow(connection, attempt)
    return True


def _move_to_end(connection: Connection, attempt: Row[Any], how: Finish) -> bool:
    outcome = how.outcome
    state: State = "scored" if outcome.error is None else "failed"
    note: dict[str, Any] = {"score": outcome.score}
    if outcome.error is not None:
        note = {"error": outcome.error}
    if how.evaluation.reason is not None:
        note[HIDDEN] = make_storable(how.evaluation.reason)
    entry = AuditEntry(at=how.at, actor=SYSTEM, event=state, note=note)
    facts = {"verified": how.verified, "trajectory_level": outcome.trajectory_level}
    return move_attempt(connection, attempt, state, entry, scored_at=how.at, **facts)


def _store_score(
    connection: Connection, kept: StoredChallenge, attempt: Row[Any], how: Finish
) -> dict[str, Any]:
    row = score_row(
        how.outcome,
        challenge_id=kept.id,
        agent=attempt.agent,
        attempt=attempt.key,
        tenant=kept.tenant,
        scoring=find_or_add_scoring(connection, kept, how.outcome, how.at),
        submitted_at=attempt.submitted_at,
        number=attempt.number,
    )
    connection.execute(insert(attempt_scores).values(row))
    remember_score(connection, row, how.at)
    details = json_text(how.outcome.details) if how.outcome.details else None
    texts = {"evaluation": json_text(how.evaluation), "details": details}
    mine = attempt_details.c.attempt == attempt.key
    connection.execute(update(attempt_details).where(mine).values(texts))
    return row


def score_row(outcome: Outcome, **facts: Any) -> dict[str, Any]:
    """The row of an attempt's score; a number that no column can hold is not known."""
    metrics = outcome.metrics
    return facts | {
        "score": _keep_finite(outcome.score),
        "ranks": outcome.ranks,
        "succeeded": metrics.succeeded,
        "tokens_total": _keep_within_64_bits(metrics.tokens_total),
        "elapsed_ms": _keep_within_64_bits(metrics.elapsed_ms),
        "rating": _keep_finite(metrics.rating),
        "created_at": _keep_within_64_bits(metrics.created_at),
        "cost": _keep_finite(metrics.cost),
        "calls": _keep_within_64_bits(metrics.calls),
        "result": outcome.result,
        "error": outcome.error,
        "more": json_text(metrics.more) if metrics.more else None,
        "dimensions": json_text(outcome.dimensions) if outcome.dimensions else None,
    }


def find_or_add_scoring(
    connection: Connection, kept: StoredChallenge, outcome: Outcome, at: float
) -> int:
    """The row that says by which rule attempts are being scored; the last one if it still holds."""
    origin = origin_text(outcome)
    mine = scorings.c.challenge_id == kept.id
    query = select(scorings.c.id, scorings.c.why, scorings.c.origin).where(mine)
    last = connection.execute(query.order_by(scorings.c.id.desc()).limit(1)).one_or_none()
    if last is not None and (last.why, last.origin) == ("finish", origin):
        return int(last.id)
    return add_scoring(connection, kept, "finish", origin, at)


def add_scoring(
    connection: Connection, kept: StoredChallenge, why: str, origin: str | None, at: float
) -> int:
    """A row for attempts that are scored by another rule, or all at once."""
    row = {"tenant": kept.tenant, "challenge_id": kept.id, "at": at, "why": why, "origin": origin}
    key: int = connection.execute(
        insert(scorings).values(row).returning(scorings.c.id)
    ).scalar_one()
    return key


def origin_text(outcome: Outcome) -> str | None:
    """An outcome's origin, as it is kept."""
    return None if outcome.origin is None else json_text(outcome.origin)


def remember_score(connection: Connection, row: dict[str, Any], at: float) -> None:
    """Adds the score of a row to the history."""
    names = ("scoring", "agent", "attempt", "tenant", "score", "result", "error")
    values = {name: row[name] for name in names}
    connection.execute(insert(score_history).values(values | {"at": at}))


def read_history(connection: Connection, attempt: Row[Any]) -> list[ScoreEntry]:
    """Every score that an attempt was given, oldest first. `attempt` is its row."""
    table = score_history.c
    query = (
        select(table.at, table.score, table.result, table.error, scorings.c.origin)
        .join(scorings, scorings.c.id == table.scoring)
        .where(scorings.c.challenge_id == attempt.challenge_id)
        .where(table.agent == attempt.agent, table.attempt == attempt.key)
        .order_by(table.scoring)
    )
    entries = [
        _make_entry(row.at, row.score, row.result, row.error, row.origin)
        for row in connection.execute(query)
    ]
    return entries + _follow_rules(connection, attempt, entries[-1].score if entries else None)


def _follow_rules(
    connection: Connection, attempt: Row[Any], last: float | None
) -> list[ScoreEntry]:
    """The scores that follow from rules later than the attempt's own score."""
    known = score_rules.read_rules(connection, attempt.challenge_id)
    query = select(attempt_scores).join(attempts, is_own_score)
    mine = (attempts.c.key == attempt.key, attempt_scores.c.error.is_(None))
    row = connection.execute(query.where(*mine)).one_or_none() if known else None
    entries: list[ScoreEntry] = []
    if row is None:
        return entries
    for rule in known:
        if row.scoring < rule.given.scoring:
            score = score_of(rule.challenge, row)
            if score != last:
                entries.append(_make_entry(rule.given.at, score, row.result, None, rule.origin))
            last = score
    return entries


def _make_entry(
    at: float, score: float | None, result: str | None, error: str | None, origin: str | None
) -> ScoreEntry:
    made_by = None if origin is None else _decode_origin(origin)
    return ScoreEntry(at=at, score=score, result=result, error=error, origin=made_by)


def _keep_finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _keep_within_64_bits(number: int | None) -> int | None:
    return number if number is not None and -_BEYOND <= number < _BEYOND else None
