"""Column types, and what SQLite and PostgreSQL each do in their own way behind one function.

Times are seconds since 1970, UTC, as floats: the same on both databases and in the records.

PostgreSQL refuses the NUL character, and no database stores half of a surrogate pair, yet models
answer with both. JSON writes NUL as an escape, so it survives inside JSON; elsewhere it becomes
the replacement character, as do lone surrogates everywhere.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Text,
    func,
    literal_column,
    select,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Column, Connection, Dialect, Insert, Table


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder(enc_hook=str).encode
_decode_numbers = msgspec.json.Decoder(dict[str, float | None]).decode
metadata = MetaData()
"""All tables are in it."""
RowKey = BigInteger().with_variant(Integer, "sqlite")
"""A whole number that the database gives out; SQLite does so for this type only."""


class CodePointText(TypeDecorator[str]):
    """Text that is compared and sorted by code points on every database."""

    # PostgreSQL would otherwise sort by the server's language.
    impl = Text().with_variant(Text(collation="C"), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else make_storable(value)


class FiniteFloat(TypeDecorator[float]):
    """A float, or NULL when it is unknown; infinities and NaN are unknown."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        return value if value is not None and math.isfinite(value) else None


class JsonText(TypeDecorator[Any]):
    """Plain data as JSON text, which the database never searches."""

    impl = Text  # not `jsonb`, which refuses the NUL characters that models sometimes emit
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        return json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else msgspec.json.decode(value)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Index of the rows that meet a condition.

    The condition is set when tables are made: SQLAlchemy loads a whole dialect as soon as an option
    of it is named.
    """
    return Index(name, *columns, unique=unique, info={"where": where})


def bind_value(column: Column[Any], value: Any) -> Any:
    """Convert a value as its column does, for a statement written as text."""
    process: Any = getattr(column.type, "process_bind_param", None)  # of the types above
    return value if process is None else process(value, None)


def make_storable(text: str) -> str:
    """Replace the characters that a database column cannot hold."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def json_text(value: Any) -> str:
    """Compact JSON; non-finite numbers become null, and unknown types their `str`.

    The fast encoder does nearly all; values that it refuses are cleaned first.
    """
    try:
        return _encode(value).decode()
    except (TypeError, UnicodeEncodeError):
        return _encode(_clean(value)).decode()


def read_json_mapping(text: str | None) -> dict[str, Any]:
    """Mapping in a JSON column that is NULL when it is empty."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])


def read_numbers(text: str | None) -> dict[str, float | None]:
    """Numbers in such a column, each as a float."""
    return {} if text is None else _decode_numbers(text)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(each) for each in value]
    return value


_ENLARGED = {"cache_size": -256 * 1024, "mmap_size": 2**32}  # in KiB, since negative; in bytes
# Grouping may take twice as much. A larger setting stays.
_MORE_MEMORY = """
    SELECT set_config('work_mem', '128MB', TRUE)
    WHERE pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('128MB')
"""
_POSTGRES_TYPES: dict[type[TypeEngine[Any]], str] = {
    BigInteger: "int8",
    Integer: "int4",
    Boolean: "bool",
    Float: "float8",
    Text: "text",
    LargeBinary: "bytea",
}


def dialect_insert(connection: Connection, table: Table) -> Any:
    """INSERT of the dialect, which supports ON CONFLICT."""
    # Loaded with the engine of its kind; the other one is not needed.
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # noqa: PLC0415
    return insert(table)


def insert_once(connection: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Insert a row unless its key is taken, and return whether it was inserted.

    A concurrent insert of the same key is awaited.
    """
    statement = dialect_insert(connection, table).values(row).on_conflict_do_nothing()
    return connection.execute(statement.returning(literal_column("1"))).first() is not None


def count_inserted(connection: Connection, statement: Insert) -> int:
    """Run an INSERT and return the number of rows, which SQLAlchemy reports only on request."""
    return connection.execute(statement, execution_options={"preserve_rowcount": True}).rowcount


def lock_rows(query: Select[Any]) -> Select[Any]:
    """Lock the query's rows until the end of the transaction.

    On SQLite every writer is alone already. Rows that merely refer to these do not wait.
    """
    return query.with_for_update(key_share=True)


def lock_names(connection: Connection, tenant: str) -> None:
    """Serialise transactions that name an agent of a tenant: each must see the others' names."""
    _lock_word(connection, f"names of {tenant}")


def lock_log(connection: Connection, tenant: str) -> None:
    """Serialise transactions that write a tenant's log, so its entries become visible in order.

    The last lock that a transaction takes.
    """
    _lock_word(connection, f"log of {tenant}")


def lock_traces(connection: Connection, tenant: str, *, removed: bool = False) -> None:
    """Lock a tenant's traces: exclusively to remove some, shared otherwise.

    Taken after the locks of rules and before those of traces.
    """
    _lock_word(connection, f"traces of {tenant}", shared=not removed)


def _lock_word(connection: Connection, word: str, *, shared: bool = False) -> None:
    """Take an advisory lock; on SQLite every writer is alone already."""
    if connection.dialect.name == "postgresql":
        lock = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
        connection.execute(select(lock(func.hashtextextended(word, 0))))


def repeatable_read(connection: Connection) -> Connection:
    """Connection whose transaction is a snapshot, as SQLite's always are."""
    level = "REPEATABLE READ"
    # A transaction that has begun so refuses to be set again.
    if connection.get_execution_options().get("isolation_level") == level:
        return connection
    if connection.dialect.name == "postgresql":
        return connection.execution_options(isolation_level=level)
    return connection


def insert_many(
    connection: Connection, table: Table, names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Insert many rows, tuples in the order of `names`, by the fastest way of the database."""
    columns = ", ".join(names)
    # Neither way goes through the types of the columns: the caller gives what they can hold.
    cursor: Any = connection.connection.cursor()
    if connection.dialect.name == "postgresql":
        how = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
        with cursor, cursor.copy(how) as copy:
            copy.set_types(_list_types(table, names))
            for row in rows:
                copy.write_row(row)
        return
    places = ", ".join("?" * len(names))
    statement = f"INSERT INTO {table.name} ({columns}) VALUES ({places})"  # noqa: S608  our names
    cursor.executemany(statement, rows)


def read_many(
    connection: Connection, table: Table, names: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """All rows of a table, one by one, as `insert_many` takes them on either database."""
    columns = ", ".join(names)
    cursor: Any = connection.connection.cursor()
    if connection.dialect.name == "postgresql":
        how = f"COPY {table.name} ({columns}) TO STDOUT (FORMAT BINARY)"
        with cursor, cursor.copy(how) as copy:
            copy.set_types(_list_types(table, names))
            yield from copy.rows()
        return
    yield from cursor.execute(f"SELECT {columns} FROM {table.name}")  # noqa: S608  our names


def insert_columns(
    connection: Connection,
    table: Table,
    columns: Mapping[str, Sequence[Any]],
    *,
    ordered_by: str | None = None,
) -> None:
    """Insert many rows, given as columns of one length.

    Columns of None are left out, and SQLite gets integers for booleans: its driver takes as long
    for each None and each boolean as for several numbers.
    """
    known = {
        name: values for name, values in columns.items() if not all(each is None for each in values)
    }
    if not known:  # no rows
        return
    if connection.dialect.name == "sqlite":
        for name, values in known.items():
            if isinstance(table.c[name].type, Boolean):
                known[name] = list(map(int, values))
    rows: Iterable[tuple[Any, ...]] = zip(*known.values(), strict=True)
    if ordered_by is not None:
        rows = sorted(rows, key=itemgetter(tuple(known).index(ordered_by)))
    insert_many(connection, table, tuple(known), rows)


def _list_types(table: Table, names: Sequence[str]) -> list[str]:
    types = {column.name: column.type for column in table.columns}
    return [_name_type(types[name]) for name in names]


def _name_type(column: TypeEngine[Any]) -> str:
    """PostgreSQL's name of a column type."""
    plain = column.impl if isinstance(column, TypeDecorator) else column
    return next(name for kind, name in _POSTGRES_TYPES.items() if isinstance(plain, kind))


@contextmanager
def enlarge_cache(connection: Connection) -> Iterator[None]:
    """Enlarge caches for a bulk change: otherwise most pages are read and written several times."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(_MORE_MEMORY)  # forgotten at the end of the transaction
        yield
        return
    before = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in _ENLARGED}
    try:
        _set_pragmas(connection, _ENLARGED)
        yield
    finally:
        _set_pragmas(connection, before)


def _set_pragmas(connection: Connection, pragmas: Mapping[str, int | None]) -> None:
    for name, value in pragmas.items():
        if value is not None:  # a build without memory maps has no size of them
            connection.exec_driver_sql(f"PRAGMA {name} = {value}")
