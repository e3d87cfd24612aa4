"""Attempts in the database: reading them, and moving them from state to state.

The id that people see is the row's key, filled up with zeros: ids sort like the keys.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import and_, func, select, update

from tallymark.challenges.attempt import NEXT_STATES, Attempt, Metrics, Outcome
from tallymark.scoring import Origin
from tallymark.store import audit
from tallymark.store.attempt_tables import (
    attempt_details,
    attempt_scores,
    attempts,
    score_rules,
    scorings,
)
from tallymark.store.audit import AuditEntry
from tallymark.store.contest_tables import challenge_versions, challenges
from tallymark.store.score_rules import score_by_rule

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Select

    from tallymark.challenges.attempt import State

_ID = re.compile(r"a([0-9]{12,18})")
_METRICS = tuple(name for name in Metrics.__struct_fields__ if name != "more")
_decode_origin = msgspec.json.Decoder(Origin).decode
_rules = score_rules.alias()
_rule_versions = challenge_versions.alias("rule_versions")


def attempt_id(key: int) -> str:
    """The id that people see: the row's key, filled up with zeros, so that ids sort like keys."""
    return f"a{key:012}"


def attempt_key(identifier: str) -> int | None:
    """The row that an id can only mean; None for what is no id."""
    match = _ID.fullmatch(identifier)
    return int(match[1]) if match else None


def select_attempts(tenant: str) -> Select[Any]:
    """All that an `Attempt` is made from."""
    scores = attempt_scores.c
    score = and_(
        scores.challenge_id == attempts.c.challenge_id,
        scores.agent == attempts.c.agent,
        scores.submitted_at == attempts.c.submitted_at,
        scores.attempt == attempts.c.key,
    )
    # The last rule that rescored it, if that was later than its own score: see `score_rules`.
    latest = select(func.max(_rules.c.scoring)).where(
        _rules.c.challenge_id == attempts.c.challenge_id
    )
    rule = and_(
        score_rules.c.challenge_id == attempts.c.challenge_id,
        score_rules.c.scoring == latest.correlate(attempts).scalar_subquery(),
        score_rules.c.scoring > scores.scoring,
        scores.error.is_(None),
    )
    return (
        select(
            attempts,
            challenges.c.name.label("challenge"),
            challenge_versions.c.version,
            scores.score,
            scores.ranks,
            scores.result,
            scores.error,
            scores.more,
            scores.dimensions,
            *(scores[name] for name in _METRICS),
            _rule_versions.c.definition.label("rule"),
            scorings.c.origin,
            attempt_details.c.details,
        )
        .join(challenges, challenges.c.id == attempts.c.challenge_id)
        .join(challenge_versions, challenge_versions.c.id == attempts.c.version_id)
        .outerjoin(attempt_scores, score)
        .outerjoin(score_rules, rule)
        .outerjoin(_rule_versions, _rule_versions.c.id == score_rules.c.version_id)
        .outerjoin(scorings, scorings.c.id == func.coalesce(score_rules.c.scoring, scores.scoring))
        .outerjoin(attempt_details, attempt_details.c.attempt == attempts.c.key)
        .where(attempts.c.tenant == tenant)
    )


def read_attempt(connection: Connection, tenant: str, key: int) -> Attempt:
    """An attempt whose key is known to be right."""
    return to_attempt(
        connection.execute(select_attempts(tenant).where(attempts.c.key == key)).one()
    )


def to_attempt(row: Row[Any]) -> Attempt:
    """The attempt of a row of `select_attempts`."""
    return Attempt(
        id=attempt_id(row.key),
        challenge=row.challenge,
        version=row.version,
        agent=row.agent,
        number=row.number,
        state=row.state,
        seed=row.seed,
        entered_at=row.entered_at,
        expires_at=row.expires_at,
        submitted_at=row.submitted_at,
        scored_at=row.scored_at,
        verified=row.verified,
        memoryless=row.memoryless,
        outcome=None if row.ranks is None else _outcome(row),
    )


def move_attempt(
    connection: Connection, row: Row[Any], to: State, entry: AuditEntry, **values: object
) -> bool:
    """Moves an attempt to another state, and writes it down; False if another was quicker."""
    if to not in NEXT_STATES[row.state]:
        raise ValueError(f"an attempt that is {row.state} cannot become {to}")
    change = update(attempts).where(attempts.c.key == row.key, attempts.c.state == row.state)
    if connection.execute(change.values(state=to, **values)).rowcount != 1:
        return False
    entry = msgspec.structs.replace(entry, before=row.state, after=to)
    audit.write_entry(connection, row.tenant, row.challenge_id, row.key, entry)
    return True


def _outcome(row: Row[Any]) -> Outcome:
    metrics = {name: getattr(row, name) for name in _METRICS}
    return Outcome(
        score=row.score if row.rule is None else score_by_rule(row.rule, row),
        result=row.result,
        ranks=row.ranks,
        metrics=Metrics(**metrics, more=_decode_mapping(row.more)),
        dimensions=_decode_mapping(row.dimensions),
        details=_decode_mapping(row.details),
        error=row.error,
        origin=None if row.origin is None else _decode_origin(row.origin),
    )


def _decode_mapping(text: str | None) -> dict[str, Any]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
