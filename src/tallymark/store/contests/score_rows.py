"""Scores in the database: given once, the rows that boards and rescoring read, and the history."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import select

from tallymark.challenges.attempt import Metrics, Outcome
from tallymark.scoring import Origin
from tallymark.store.contests.attempt_tables import (
    score_history,
    scorings,
)
from tallymark.store.dialects import json_text, make_storable, read_json_mapping, read_numbers
from tallymark.store.quick_statements import QuickStatements, write_insert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Row

    from tallymark.store.contests.challenges import StoredChallenge

_BEYOND = 2**63
# Nearly all scores of a challenge are by one rule.
_decode_origin = lru_cache(maxsize=256)(msgspec.json.Decoder(Origin).decode)
_FACTS = ("challenge_id", "agent", "attempt", "tenant", "scoring", "submitted_at", "number")
_METRICS = tuple(name for name in Metrics.__struct_fields__ if name != "more")


class ScoreEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A score that an attempt was given: when, and by which rule."""

    at: float
    score: float | None
    result: str | None = None
    error: str | None = None
    origin: Origin | None = None


def _keep_finite(number: float | None) -> float | None:
    return float(number) if number is not None and isfinite(number) else None


def _keep_within_64_bits(number: int | None) -> int | None:
    return number if number is not None and -_BEYOND <= number < _BEYOND else None


VALUE_NAMES = (
    "score",
    "ranks",
    "succeeded",
    "tokens_total",
    "elapsed_ms",
    "rating",
    "created_at",
    "cost",
    "calls",
    "result",
    "error",
    "more",
    "dimensions",
)
"""The columns that an outcome fills, in the order of `list_values`."""


def list_values(outcome: Outcome) -> tuple[Any, ...]:
    """What is kept of an outcome; a number that no column can hold is not known."""
    metrics = outcome.metrics
    return (
        _keep_finite(outcome.score),
        outcome.ranks,
        metrics.succeeded,
        _keep_within_64_bits(metrics.tokens_total),
        _keep_within_64_bits(metrics.elapsed_ms),
        _keep_finite(metrics.rating),
        _keep_within_64_bits(metrics.created_at),
        _keep_finite(metrics.cost),
        _keep_within_64_bits(metrics.calls),
        outcome.result,
        None if outcome.error is None else make_storable(outcome.error),
        json_text(metrics.more) if metrics.more else None,
        json_text(outcome.dimensions) if outcome.dimensions else None,
    )


def score_row(outcome: Outcome, **facts: Any) -> dict[str, Any]:
    """The row of an attempt's score."""
    facts.update(zip(VALUE_NAMES, list_values(outcome), strict=True))
    return facts


SCORE_NAMES = tuple(score_row(Outcome(score=None), **dict.fromkeys(_FACTS)))
"""The columns of such a row, in the order of `take_score`."""
take_score = itemgetter(*SCORE_NAMES)


def to_outcome(
    row: Mapping[str, Any], details: str | None, level: Any, origin: str | None
) -> Outcome:
    """An outcome as its rows have it. `row` is that of the score."""
    metrics = {name: row[name] for name in _METRICS}
    metrics["succeeded"] = bool(row["succeeded"])  # SQLite has no booleans
    return Outcome(
        score=row["score"],
        result=row["result"],
        ranks=bool(row["ranks"]),
        metrics=Metrics(**metrics, more=read_numbers(row["more"])),
        dimensions=read_json_mapping(row["dimensions"]),
        details=read_json_mapping(details),
        trajectory_level=level,
        error=row["error"],
        origin=None if origin is None else _decode_origin(origin),
    )


_ADD_SCORING = (
    write_insert("scorings", ("tenant", "challenge_id", "at", "why", "origin")) + " RETURNING id"
)


def add_scoring(
    connection: Connection, kept: StoredChallenge, why: str, origin: str | None, at: float
) -> int:
    """A row for attempts that are scored by another rule, or all at once."""
    row = (kept.tenant, kept.id, at, why, origin)
    ((key,),) = QuickStatements(connection).read(_ADD_SCORING, *row)
    return int(key)


def origin_text(outcome: Outcome) -> str | None:
    """An outcome's origin, as it is kept."""
    return None if outcome.origin is None else json_text(outcome.origin)


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
    return [_make_entry(*row) for row in connection.execute(query)]


def _make_entry(
    at: float, score: float | None, result: str | None, error: str | None, origin: str | None
) -> ScoreEntry:
    made_by = None if origin is None else _decode_origin(origin)
    return ScoreEntry(at=at, score=score, result=result, error=error, origin=made_by)
