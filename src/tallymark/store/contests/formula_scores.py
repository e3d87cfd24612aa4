"""A formula over the stored numbers of attempts at a challenge: in SQL, or row by row.

Attempts that failed are never meant. Scores are NULL where the formula has no value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Table, insert, literal, select, text, update
from sqlalchemy.exc import DBAPIError

from tallymark.challenges.attempt_formula import METRICS, challenge_formula, total_of
from tallymark.store.column_types import (
    CodePointText,
    FiniteFloat,
    RowKey,
    read_json_mapping,
    read_numbers,
)
from tallymark.store.contests.attempt_tables import (
    attempt_scores,
    attempts,
    is_own_score,
    score_history,
)
from tallymark.store.database_dialects import count_inserted, insert_many
from tallymark.store.formula_sql import SqlColumn, add_functions, formula_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection, Row

    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.formula_sql import SqlFormula

_scores = attempt_scores.c
_REAL = frozenset({"rating", "cost"})

# Made and dropped by whoever needs it, in its own transaction.
_fresh = Table(
    "fresh_scores",
    MetaData(),
    Column("attempt", RowKey, primary_key=True, autoincrement=False),
    Column("agent", CodePointText, nullable=False),
    Column("submitted_at", FiniteFloat, nullable=False),
    Column("score", FiniteFloat),
    prefixes=["TEMPORARY"],
)


@dataclass(frozen=True, slots=True)
class ScoringStamp:
    """What new scores are kept under: the row of `scorings`, and when."""

    scoring: int
    at: float


def score_expression(
    connection: Connection, challenge: Challenge, *, prefix: str = "n"
) -> SqlFormula | None:
    """A challenge's formula over the columns of `attempt_scores`; None where SQL cannot say it."""
    formula = challenge_formula(challenge).formula
    dialect = connection.dialect.name
    columns = _list_columns(challenge, dialect)
    if not columns.keys() >= set(formula.names):
        return None
    if dialect == "sqlite":
        add_functions(connection.connection.driver_connection)  # type: ignore[arg-type]
    return formula_sql(formula.tree, columns, dialect, prefix=prefix)


def is_out_of_range(error: DBAPIError) -> bool:
    """PostgreSQL's class 22: a result too large or too small, which SQLite has no error for."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state is not None and state.startswith("22")


def write_all(
    connection: Connection, kept: StoredChallenge, challenge: Challenge, given: ScoringStamp
) -> int:
    """Writes the scores of all attempts that were scored before; how many are other scores."""
    sql = score_expression(connection, challenge)
    if sql is not None:
        try:
            # After an error PostgreSQL takes nothing more, unless a savepoint is gone back to.
            with connection.begin_nested():
                return _write_in_sql(connection, kept, sql, given)
        except DBAPIError as error:
            if not is_out_of_range(error):
                raise
    return write_in_python(connection, kept, challenge, given)


def _list_columns(challenge: Challenge, dialect: str) -> dict[str, SqlColumn]:
    """The SQL of the names that a challenge's formula may use; `total` has none that is exact.

    Whatever is stored is finite: see `score_rows`.
    """
    columns = {
        each.name: SqlColumn(each.name, real=each.name in _REAL, finite=True) for each in METRICS
    }
    thousand, inside = "1000.0", "tally_number({}, '{}')"
    if dialect == "postgresql":
        thousand, inside = "float8 '1000'", "(CAST({} AS json) ->> '{}')"
        columns["succeeded"] = SqlColumn("CAST(succeeded AS integer)", finite=True)
    columns["elapsed_s"] = SqlColumn(f"(elapsed_ms / {thousand})", real=True, finite=True)
    for each in challenge.scoring.dimensions:
        columns[each.key] = SqlColumn(inside.format("dimensions", each.key), finite=True)
    for name in challenge.evaluator.options.get("metrics", ()):
        columns[name] = SqlColumn(inside.format("more", name), finite=True)
    return columns


def _write_in_sql(
    connection: Connection, kept: StoredChallenge, sql: SqlFormula, given: ScoringStamp
) -> int:
    distinct = "IS NOT" if connection.dialect.name == "sqlite" else "IS DISTINCT FROM"
    values = sql.parameters | {"id": kept.id, "scoring": given.scoring}
    meant = "challenge_id = :id AND error IS NULL AND scoring < :scoring"
    # The limit keeps SQLite from writing the formula wherever its result is used.
    remember = f"""
        INSERT INTO score_history (scoring, agent, attempt, tenant, at, score, result)
        SELECT :scoring, agent, attempt, tenant, :at, fresh, result
        FROM (
            SELECT agent, attempt, tenant, score, result, {sql.text} AS fresh
            FROM attempt_scores WHERE {meant} LIMIT {2**62}
        ) AS scored
        WHERE fresh IS NOT NULL AND fresh {distinct} score
    """  # noqa: S608  our own words and numbers
    change = f"""
        UPDATE attempt_scores SET score = {sql.text}, scoring = :scoring WHERE {meant}
    """  # noqa: S608
    # The history first: it compares with the scores that the update replaces.
    changed = connection.execute(text(remember), values | {"at": given.at}).rowcount
    connection.execute(text(change), values)
    return changed


def write_in_python(
    connection: Connection,
    kept: StoredChallenge,
    challenge: Challenge,
    given: ScoringStamp,
    keys: Collection[int] | None = None,
) -> int:
    """The same of these attempts, or all: row by row, then at once through a temporary table."""
    meant = (_scores.challenge_id == kept.id, _scores.error.is_(None))
    query = select(attempt_scores).where(*meant, _scores.scoring < given.scoring)
    if keys is not None:  # by the keys of attempts: scores have no index of their own by them
        query = query.join(attempts, is_own_score).where(attempts.c.key.in_(keys))
    rows = [
        (row.attempt, row.agent, row.submitted_at, score_of(challenge, row))
        for row in connection.execute(query)
    ]
    _fresh.create(connection)
    insert_many(connection, _fresh, [each.name for each in _fresh.c], rows)
    same = (meant[0], *(_scores[each.name] == each for each in list(_fresh.c)[:3]))
    names = ("agent", "attempt", "tenant", "result")
    another = (
        select(literal(given.scoring), literal(given.at), *(_scores[name] for name in names))
        .add_columns(_fresh.c.score)
        .where(*same, _fresh.c.score.is_not(None))
        .where(_fresh.c.score.is_distinct_from(_scores.score))
    )
    into = ("scoring", "at", *names, "score")
    changed = count_inserted(connection, insert(score_history).from_select(into, another))
    change = update(attempt_scores).where(*same)
    connection.execute(change.values(score=_fresh.c.score, scoring=given.scoring))
    _fresh.drop(connection)
    return changed


def score_of(challenge: Challenge, row: Row[Any]) -> float | None:
    """The score by a challenge's formula of a row with the columns of `attempt_scores`."""
    rule = challenge_formula(challenge)
    found: Mapping[str, Any] = row._asdict()  # so SQLAlchemy calls it, as named tuples do
    if row.more or row.dimensions:
        dimensions: dict[str, float] = read_json_mapping(row.dimensions)
        total = total_of(challenge, dimensions) if "total" in rule.formula.names else None
        found = {**found, "total": total, **read_numbers(row.more), **dimensions}
    return rule.formula.evaluate(rule.read_values(found))
