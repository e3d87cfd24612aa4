"""A formula over the stored numbers of all attempts at a challenge: in SQL, or row by row.

Either way the score is NULL where the formula has no value, and every score that is another than
before is in the history. Attempts that failed before are not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import Column, MetaData, Table, insert, literal, select, text, update
from sqlalchemy.exc import DBAPIError

from tallymark.challenges.formula_values import METRICS, challenge_formula
from tallymark.challenges.rescoring import total_of
from tallymark.store.contest_tables import Key, attempt_scores, score_history
from tallymark.store.formula_sql import add_functions, formula_sql
from tallymark.store.rescored_rows import inserted
from tallymark.store.rows import insert_many
from tallymark.store.tables import Number, Words

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from tallymark.challenges.definition import Challenge
    from tallymark.formula.steps import Values
    from tallymark.store.challenges import Kept
    from tallymark.store.formula_sql import SqlFormula
    from tallymark.store.rescored_rows import Given

_scores = attempt_scores.c
_WHOLE_TO_THE_UNIT = 2**53
"""Beyond it, milliseconds are not exact as floats, and dividing them is left to Python."""


class Counted(NamedTuple):
    """How many attempts were scored, and how many of them to another score than before."""

    scored: int
    changed: int


# Made and dropped by whoever needs it, in its own transaction.
_fresh = Table(
    "fresh_scores",
    MetaData(),
    Column("attempt", Key, primary_key=True, autoincrement=False),
    Column("agent", Words, nullable=False),
    Column("score", Number),
    prefixes=["TEMPORARY"],
)


def score_all(connection: Connection, kept: Kept, challenge: Challenge, given: Given) -> Counted:
    """Scores all attempts that have not failed by a challenge's formula."""
    sql = _sql(connection, challenge)
    if sql is not None:
        try:
            with connection.begin_nested():
                return _in_sql(connection, kept, sql, given)
        except DBAPIError as error:
            if not _out_of_range(error):
                raise
    return _row_by_row(connection, kept, challenge, given)


def _sql(connection: Connection, challenge: Challenge) -> SqlFormula | None:
    formula = challenge_formula(challenge)
    columns = _columns(challenge, connection.dialect.name)
    if not columns.keys() >= set(formula.names):
        return None
    if connection.dialect.name == "sqlite":
        add_functions(connection.connection.driver_connection)  # type: ignore[arg-type]
    return formula_sql(formula.tree, columns, connection.dialect.name)


def _columns(challenge: Challenge, dialect: str) -> dict[str, str]:
    """The SQL of the names that a challenge's formula may use; `total` has none that is exact."""
    columns = {each.name: each.name for each in METRICS}
    exact = f"elapsed_ms BETWEEN {-_WHOLE_TO_THE_UNIT} AND {_WHOLE_TO_THE_UNIT}"
    if dialect == "sqlite":
        columns["elapsed_s"] = f"CASE WHEN {exact} THEN elapsed_ms / 1000.0 END"
        inside = "tally_number({}, '{}')"
    else:
        columns["succeeded"] = "CAST(succeeded AS integer)"
        columns["elapsed_s"] = f"CASE WHEN {exact} THEN elapsed_ms / float8 '1000' END"
        inside = "(CAST({} AS json) ->> '{}')"
    for key in challenge.scoring.dimensions:
        columns[key.key] = inside.format("dimensions", key.key)
    for name in challenge.evaluator.options.get("metrics", ()):
        columns[name] = inside.format("more", name)
    return columns


def _in_sql(connection: Connection, kept: Kept, sql: SqlFormula, given: Given) -> Counted:
    distinct = "IS NOT" if connection.dialect.name == "sqlite" else "IS DISTINCT FROM"
    values = sql.parameters | {"id": kept.id, "scoring": given.scoring}
    # The limit keeps SQLite from writing the formula wherever its result is used.
    remember = f"""
        INSERT INTO score_history (scoring, agent, attempt, tenant, at, score, result)
        SELECT :scoring, agent, attempt, tenant, :at, fresh, result
        FROM (
            SELECT agent, attempt, tenant, score, result, {sql.text} AS fresh
            FROM attempt_scores WHERE challenge_id = :id AND error IS NULL
            LIMIT {2**62}
        ) AS scored
        WHERE fresh IS NOT NULL AND fresh {distinct} score
    """  # noqa: S608  our own words and numbers
    change = f"""
        UPDATE attempt_scores SET score = {sql.text}, scoring = :scoring
        WHERE challenge_id = :id AND error IS NULL
    """  # noqa: S608
    changed = connection.execute(text(remember), values | {"at": given.at}).rowcount
    return Counted(connection.execute(text(change), values).rowcount, changed)


def _out_of_range(error: DBAPIError) -> bool:
    """PostgreSQL's class 22: a result too large or too small, which SQLite has no error for."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state is not None and state.startswith("22")


def _row_by_row(connection: Connection, kept: Kept, challenge: Challenge, given: Given) -> Counted:
    formula = challenge_formula(challenge)
    query = select(attempt_scores).where(_scores.challenge_id == kept.id, _scores.error.is_(None))
    rows = [
        (row.attempt, row.agent, formula.evaluate(_values(challenge, formula.names, row)))
        for row in connection.execute(query.order_by(_scores.agent, _scores.attempt))
    ]
    _fresh.create(connection)
    insert_many(connection, _fresh, ("attempt", "agent", "score"), rows)
    same = (
        _scores.challenge_id == kept.id,
        _scores.agent == _fresh.c.agent,
        _scores.attempt == _fresh.c.attempt,
    )
    names = ("agent", "attempt", "tenant", "result")
    another = (
        select(literal(given.scoring), literal(given.at), *(_scores[name] for name in names))
        .add_columns(_fresh.c.score)
        .where(*same, _fresh.c.score.is_not(None))
        .where(_fresh.c.score.is_distinct_from(_scores.score))
    )
    into = ("scoring", "at", *names, "score")
    changed = inserted(connection, insert(score_history).from_select(into, another))
    change = update(attempt_scores).where(*same)
    connection.execute(change.values(score=_fresh.c.score, scoring=given.scoring))
    _fresh.drop(connection)
    return Counted(len(rows), changed)


def _values(challenge: Challenge, names: tuple[str, ...], row: Row[Any]) -> Values:
    """What `formula_values` gives, for the names that are used."""
    found: dict[str, float | None] = {}
    dimensions: dict[str, float] = _decoded(row.dimensions)
    inside = _decoded(row.more) | dimensions
    for name in names:
        if name == "elapsed_s":
            found[name] = None if row.elapsed_ms is None else row.elapsed_ms / 1000
        elif name == "total":
            found[name] = total_of(challenge, dimensions)
        else:
            found[name] = inside[name] if name in inside else getattr(row, name, None)
    return found


def _decoded(text: str | None) -> dict[str, Any]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
