"""Scores by a formula: the numbers of all attempts as columns, evaluated, and written back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import text

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.dimension_columns import find_totals
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.store.contests.number_columns import (
    METRIC_NAMES,
    insert_numbers,
    list_json_numbers,
    read_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from tallymark.challenges.challenge import Challenge


# Made and dropped in the transaction of a rescoring. PostgreSQL joins it without an index.
_FRESH = "fresh_scores"
_CREATE = {
    "sqlite": f"CREATE TEMP TABLE {_FRESH} (attempt INTEGER PRIMARY KEY, score REAL, changed INT)",
    "postgresql": f"CREATE TEMP TABLE {_FRESH} (attempt int8, score float8, changed int8)",
}


@dataclass(frozen=True, slots=True)
class ScoringStamp:
    """What new scores are kept under: the row of `scorings`, and when."""

    scoring: int
    at: float


class FormulaEffect(NamedTuple):
    """What scoring by a formula did."""

    without_score: list[int]
    """Attempts that have none by it, or had failed before: they are as they were."""
    attempts: int
    changed: int
    """Attempts that it gave another score than they had."""


def write_scores(
    connection: Connection, challenge_id: int, challenge: Challenge, given: ScoringStamp
) -> FormulaEffect:
    """Give every attempt that has not failed its score by a challenge's formula, where it has one.

    Attempts that a later scoring scored are as they were. The history takes in each score that is
    another than before.
    """
    numbers, json = _list_used(challenge)
    where = f"challenge_id = {challenge_id} AND scoring < {given.scoring}"
    whole = {"attempt": "attempt", "failed": "CASE WHEN error IS NULL THEN 0 ELSE 1 END"}
    columns = read_columns(connection, where, whole, ["score", *numbers], json)
    keys, before = columns.pop("attempt"), columns.pop("score")
    scores = evaluate_formula(challenge, columns, len(keys))
    left = np.isnan(scores) | (columns["failed"] == 1)
    changed = (scores != before) & ~left
    fresh = {"attempt": keys, "score": scores, "changed": changed.astype(np.int64)}
    _write(connection, challenge_id, given, {name: each[~left] for name, each in fresh.items()})
    return FormulaEffect(keys[left].tolist(), len(keys), int(changed.sum()))


def evaluate_formula(
    challenge: Challenge, columns: Mapping[str, Any], rows: int
) -> NDArray[np.float64]:
    """The score of each row by a challenge's formula; NaN where it has none.

    `columns` are numbers by name, without those that follow from others, unless known already.
    """
    rule = challenge_formula(challenge)
    given = dict(columns)
    if "elapsed_s" in rule.formula.names:
        given["elapsed_s"] = given["elapsed_ms"] / 1000
    if "total" in rule.formula.names and "total" not in given:
        weighted = weighted_dimensions(challenge.scoring.dimensions)
        given["total"] = find_totals(weighted, given, rows)
    # A formula without names has a column that it does not use, for the number of rows.
    return rule.formula.evaluate_many(given | {" rows": np.empty(rows)}).values


def _list_used(challenge: Challenge) -> tuple[list[str], dict[str, list[str]]]:
    """The numbers that a challenge's formula uses: columns, and numbers inside of JSON."""
    used = set(challenge_formula(challenge).formula.names)
    if "elapsed_s" in used:
        used.add("elapsed_ms")
    if "total" in used:
        used |= {each.key for each in challenge.scoring.dimensions}
    json = {
        column: [key for key in keys if key in used]
        for column, keys in list_json_numbers(challenge).items()
    }
    numbers = [name for name in METRIC_NAMES if name in used]
    return numbers, {column: keys for column, keys in json.items() if keys}


def _write(
    connection: Connection, challenge_id: int, given: ScoringStamp, fresh: dict[str, NDArray[Any]]
) -> None:
    """Write scores, and those that changed into the history.

    Through a temporary table, so that each table is changed by one statement in the order in which
    its rows lie.
    """
    connection.exec_driver_sql(_CREATE[connection.dialect.name])
    insert_numbers(connection, _FRESH, fresh)
    # Without it, either database would take the rows for few.
    connection.exec_driver_sql(f"ANALYZE {_FRESH}")
    for statement in _WRITE[connection.dialect.name]:
        connection.execute(text(statement), {"id": challenge_id, **asdict(given)})
    connection.exec_driver_sql(f"DROP TABLE {_FRESH}")


# What SQLite joins in an UPDATE it first writes to a table of its own. An attempt without a score
# by the formula keeps the one it had, until the caller has scored it by the same rule.
_WRITE = {
    "sqlite": (
        """
        INSERT INTO score_history (scoring, at, agent, attempt, tenant, result, score)
        SELECT :scoring, :at, agent, attempt, tenant, result, fresh_scores.score
        FROM attempt_scores JOIN fresh_scores USING (attempt)
        WHERE challenge_id = :id AND changed
        """,
        """
        UPDATE attempt_scores SET scoring = :scoring, score = coalesce(
            (SELECT score FROM fresh_scores WHERE attempt = attempt_scores.attempt), score
        )
        WHERE challenge_id = :id AND error IS NULL AND scoring < :scoring
        """,
    ),
    "postgresql": (
        """
        WITH given AS (
            UPDATE attempt_scores AS own SET scoring = :scoring, score = fresh.score
            FROM fresh_scores AS fresh
            WHERE own.challenge_id = :id AND own.attempt = fresh.attempt
            RETURNING agent, own.attempt, tenant, result, own.score, changed
        )
        INSERT INTO score_history (scoring, at, agent, attempt, tenant, result, score)
        SELECT :scoring, :at, agent, attempt, tenant, result, score FROM given WHERE changed <> 0
        ORDER BY agent, attempt
        """,
    ),
}
