"""The numbers of scored attempts as numpy columns: each database by the quickest way it has."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tallymark.challenges.attempt_formula import METRICS

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


def run(connection: Connection, statement: str) -> Any:
    """The driver's own cursor: rows of SQLAlchemy take three times as long."""
    return connection.exec_driver_sql(statement).cursor


def _read_sqlite(
    connection: Connection,
    where: str,
    whole: Mapping[str, str],
    numbers: Sequence[str],
    json: Mapping[str, Sequence[str]],
) -> Columns:
    # What is missing comes as an infinity, which is never stored: iterating numpy takes numbers.
    shown = ", ".join([*whole.values(), *(f"coalesce({each}, 9e999)" for each in numbers)])
    source = f"FROM attempt_scores WHERE {where} ORDER BY agent, submitted_at, attempt"
    pages = []
    for page in _read_pages(run(connection, f"SELECT {shown} {source}")):
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
        for page in _read_pages(run(connection, f"SELECT {text_column} {source}")):
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
    """As one value for each column, the bytes of all its numbers: rows would be a million reads."""
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
