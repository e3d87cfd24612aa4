"""Scores by a formula: numbers of all attempts as numpy columns, evaluated, and written back.

Each database is read and written by the quickest way it has.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import text

from tallymark.challenges.attempt_formula import METRICS, challenge_formula
from tallymark.challenges.board_columns import find_totals
from tallymark.challenges.dimension_scores import weighted_dimensions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from tallymark.challenges.challenge import Challenge

    Columns = dict[str, NDArray[Any]]

METRIC_NAMES = tuple(each.name for each in METRICS if each.name != "elapsed_s")
"""The numbers that every attempt may have, each a column of `attempt_scores`."""
_CHUNK = 2000
"""Rows at a time: so few that Python uses the same memory again and again."""
_BATCH = 100_000
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_Numbers = dict[str, float | None]


def list_json_numbers(challenge: Challenge) -> dict[str, list[str]]:
    """The columns of `attempt_scores` that hold JSON, and the numbers that a formula may name."""
    taken = dict.fromkeys(METRIC_NAMES)
    found: dict[str, list[str]] = {}
    own = challenge.evaluator.options.get("metrics", ())
    dimensions = [each.key for each in challenge.scoring.dimensions]
    for column, keys in (("dimensions", dimensions), ("more", own)):
        if fresh := [key for key in keys if key not in taken]:
            found[column] = fresh
            taken |= dict.fromkeys(fresh)
    return found


def read_columns(
    connection: Connection,
    where: str,
    whole: Mapping[str, str],
    numbers: Sequence[str],
    json: Mapping[str, Sequence[str]],
) -> Columns:
    """Columns of `attempt_scores`, in the order of the key on SQLite.

    `whole` are SQL expressions for whole numbers, none of them NULL, by name; `numbers` are names
    of columns, NaN where they are NULL; `json` names numbers inside of columns with JSON. Those of
    a row whose JSON has NUL characters are missing on PostgreSQL.
    """
    read = _read_postgres if connection.dialect.name == "postgresql" else _read_sqlite
    return read(connection, where, whole, numbers, json)


def run_raw(connection: Connection, statement: str) -> Any:
    """Run a statement on the driver's cursor: SQLAlchemy's rows take three times as long."""
    return connection.exec_driver_sql(statement).cursor


def _read_sqlite(
    connection: Connection,
    where: str,
    whole: Mapping[str, str],
    numbers: Sequence[str],
    json: Mapping[str, Sequence[str]],
) -> Columns:
    # NULL comes as an infinity, which is never stored: iterating numpy takes numbers.
    shown = ", ".join([*whole.values(), *(f"coalesce({each}, 9e999)" for each in numbers)])
    source = f"FROM attempt_scores WHERE {where} ORDER BY agent, submitted_at, attempt"
    pages = []
    for page in _read_pages(run_raw(connection, f"SELECT {shown} {source}")):
        flat = np.fromiter(chain.from_iterable(page), np.float64, len(page) * len(page[0]))
        pages.append(flat.reshape(len(page), len(page[0])))
    table = np.concatenate(pages) if pages else np.empty((0, len(whole) + len(numbers)))
    columns: Columns = {}
    for place, name in enumerate(chain(whole, numbers)):
        column = table[:, place]
        if name in whole:
            columns[name] = column.astype(np.int64)
        else:
            columns[name] = np.where(np.isinf(column), np.nan, column)
    for text_column, keys in json.items():
        columns |= {name: np.empty(len(table)) for name in keys}
        start = 0
        for page in _read_pages(run_raw(connection, f"SELECT {text_column} {source}")):
            _fill_from_json(columns, keys, start, [row[0] or "null" for row in page])
            start += len(page)
    return columns


def _read_pages(cursor: Any) -> Iterator[list[tuple[Any, ...]]]:
    while page := cursor.fetchmany(_CHUNK):
        yield page


def _fill_from_json(
    columns: Columns, keys: Sequence[str], start: int, texts: Sequence[str]
) -> None:
    rows = msgspec.json.decode(f"[{','.join(texts)}]", type=list[_Numbers | None])
    for key in keys:
        values = (math.nan if each is None else each.get(key, math.nan) for each in rows)
        known = (math.nan if value is None else value for value in values)
        columns[key][start : start + len(rows)] = np.fromiter(known, np.float64, len(rows))


def _read_postgres(
    connection: Connection,
    where: str,
    whole: Mapping[str, str],
    numbers: Sequence[str],
    json: Mapping[str, Sequence[str]],
) -> Columns:
    """Read each column as one value, the bytes of its numbers; rows would be a million reads."""
    names = (*whole, *numbers, *chain(*json.values()))
    # There is no cast from a bool to a float.
    columns = (f"{each}::int" if each == "succeeded" else each for each in numbers)
    shown = [f"int8send({each})" for each in whole.values()]
    values = [f"{each}::float8" for each in columns]
    source = "attempt_scores"
    for column, keys in json.items():
        # Read once for all of its numbers, which OFFSET makes sure of. `jsonb` refuses NULs.
        made = f"CASE WHEN strpos({column}, '\\u0000') = 0 THEN {column}::jsonb END"
        source += f" CROSS JOIN LATERAL (SELECT {made} OFFSET 0) AS {column}_read (json)"
        quoted = ("'" + key.replace("'", "''") + "'" for key in keys)
        values += [f"({column}_read.json ->> {key})::float8" for key in quoted]
    shown += [f"float8send(coalesce({each}, 'NaN'))" for each in values]
    joined = ", ".join(f"string_agg({each}, '')" for each in shown)
    query = f"SELECT {joined} FROM {source} WHERE {where}"  # noqa: S608  names are checked
    driver: Any = connection.connection
    with driver.cursor(binary=True) as cursor:
        found = cursor.execute(query.encode()).fetchone()
    return {
        name: np.frombuffer(data or b"", ">i8" if name in whole else ">f8").astype(
            np.int64 if name in whole else np.float64
        )
        for name, data in zip(names, found, strict=True)
    }


def insert_numbers(connection: Connection, table: str, columns: Columns) -> None:
    """Store rows of whole numbers and floats without NULL, in the order of the first column."""
    order = np.argsort(next(iter(columns.values())))
    names = ", ".join(columns)
    driver: Any = connection.connection
    if connection.dialect.name == "postgresql":
        # The format of COPY: the number of fields, then each with its size.
        sizes = {name: each.dtype.newbyteorder(">") for name, each in columns.items()}
        parts = chain.from_iterable(((f"{n} size", ">i4"), (n, t)) for n, t in sizes.items())
        rows = np.empty(len(order), np.dtype([("fields", ">i2"), *parts]))
        rows["fields"] = len(columns)
        for name, each in columns.items():
            rows[f"{name} size"] = each.dtype.itemsize
            rows[name] = each[order]
        copying = f"COPY {table} ({names}) FROM STDIN (FORMAT BINARY)"
        with driver.cursor() as cursor, cursor.copy(copying.encode()) as copy:
            copy.write(_COPY_HEADER)
            copy.write(rows.tobytes())
            copy.write(b"\xff\xff")
        return
    places = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608  our names
    for start in range(0, len(order), _BATCH):
        some = order[start : start + _BATCH]
        values = (each[some].tolist() for each in columns.values())
        driver.cursor().executemany(statement, zip(*values, strict=True))


# Made and dropped in the transaction of a rescoring. PostgreSQL joins it without an index.
_FRESH = "fresh_scores"
_CREATE = {
    "sqlite": f"CREATE TEMP TABLE {_FRESH} (attempt INTEGER PRIMARY KEY, score REAL, changed INT)",
    "postgresql": f"CREATE TEMP TABLE {_FRESH} (attempt int8, score float8, changed int8)",
}


@dataclass(frozen=True, slots=True)
class ScoringStamp:
    """The row of `scorings` and the time of new scores."""

    scoring: int
    at: float


class FormulaEffect(NamedTuple):
    """Result of scoring by a formula."""

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


# SQLite first writes the join of an UPDATE to a temporary table. An attempt without a score by the
# formula keeps its score, until the caller has scored it by the same rule.
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
