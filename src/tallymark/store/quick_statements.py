"""Statements that go to the driver as they are written, for operations done thousands of times.

SQLAlchemy takes longer to pass a statement on than SQLite to run it. `?` is a value on either
database. Values do not go through the types of the columns: the caller passes values that they can
hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from sqlalchemy import CompoundSelect, Connection, Dialect, Select, TextClause


_EACH = re.compile(r"\{each (\w+ (\w+)): ([^}]+)\}")
_EACH_IN_POSTGRES = r"CROSS JOIN LATERAL (SELECT * FROM \1 WHERE \3 OFFSET 0) AS \2"
_CURSOR = "tally_cursor"
_FEW = 4
"""Up to this many rows, PostgreSQL is faster with single statements than with COPY."""


@dataclass(frozen=True, slots=True)
class ManyQuery:
    """A query about many things at once: `{given}` in it is a table of them, called `given`.

    `{each TABLE NAME: CONDITION}` joins a table in which each of them is looked up by an index,
    however many rows PostgreSQL expects: without statistics it would rather read the whole table.

    `columns` are names with their PostgreSQL types: integers and texts. Floats would go through
    SQLite's JSON, which may lose their last bit.
    """

    text: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class QuickSelect:
    """An SQLAlchemy query that is compiled once for each dialect."""

    query: Select[Any] | CompoundSelect[Any] | TextClause
    _written: dict[str, _WrittenSelect] = field(default_factory=dict)

    def write(self, dialect: Dialect) -> _WrittenSelect:
        """Compile the query for a dialect."""
        found = self._written.get(dialect.name)
        if found is None:
            made = self.query.compile(dialect=dialect)
            names = None if made.positiontup is None else tuple(made.positiontup)
            own = {name: value for name, value in made.params.items() if value is not None}
            found = self._written[dialect.name] = _WrittenSelect(made.string, names, own)
        return found


@dataclass(frozen=True, slots=True)
class _WrittenSelect:
    text: str
    names: tuple[str, ...] | None
    """Names of the values in their order; None if the text names them."""
    own: Mapping[str, Any]
    """Values that are the query's own."""


class QuickStatements:
    """Statements of one transaction, which is begun unless it has begun."""

    def __init__(self, connection: Connection, *, begin: bool = True) -> None:
        """Without `begin`, a statement may run alone, which saves a round trip."""
        if begin and not connection.in_transaction():
            connection.begin()
        self.connection = connection
        self.is_postgres = connection.dialect.name == "postgresql"
        self._cursor: Any = self._find_cursor()

    def _find_cursor(self) -> Any:
        """Cursor, cached with a PostgreSQL connection: making one takes half as long as a query."""
        driver = self.connection.connection
        if not self.is_postgres:
            return driver.cursor()
        known = driver.info.get(_CURSOR)
        if known is None:
            # Numbers come as they are, not as decimals to be read.
            known = driver.info[_CURSOR] = driver.cursor(binary=True)
        return known

    def read(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        self._cursor.execute(_write_marks(text) if self.is_postgres else text, values)
        found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def select(self, query: QuickSelect, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Rows of a compiled query with these parameters."""
        written = query.write(self.connection.dialect)
        values = {**written.own, **values}
        given = values if written.names is None else [values[name] for name in written.names]
        self._cursor.execute(written.text, given)
        found: list[tuple[Any, ...]] = self._cursor.fetchall()
        return found

    def read_many(
        self, query: ManyQuery, given: Sequence[Sequence[Any]], *more: Any
    ) -> list[tuple[Any, ...]]:
        """Rows of a query about all of these; none if there are none."""
        if not given:
            return []
        return self.read(_write_given(query, self.is_postgres), *self._pass(query, given), *more)

    def run_given(self, query: ManyQuery, given: Sequence[Sequence[Any]], *more: Any) -> int:
        """Run a statement about all of these; return the number of changed rows."""
        if not given:
            return 0
        return self.run(_write_given(query, self.is_postgres), *self._pass(query, given), *more)

    def _pass(self, query: ManyQuery, given: Sequence[Sequence[Any]]) -> list[Any]:
        if not self.is_postgres:
            return [msgspec.json.encode(given).decode()]
        # The driver would write a list item by item.
        return [
            _write_numbers(column) if kind == "bigint" else list(column)
            for (_, kind), column in zip(query.columns, zip(*given, strict=True), strict=True)
        ]

    @property
    def integrity_error(self) -> type[Exception]:
        """The driver's exception for a key that is taken."""
        found: type[Exception] = self.connection.dialect.loaded_dbapi.IntegrityError
        return found

    def run(self, text: str, *values: Any) -> int:
        """Run a statement; return the number of changed rows."""
        self._cursor.execute(_write_marks(text) if self.is_postgres else text, values)
        return int(self._cursor.rowcount)

    def run_many(self, text: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement for each row of values; return the number of changed rows."""
        if not rows:
            return 0
        self._cursor.executemany(_write_marks(text) if self.is_postgres else text, rows)
        return int(self._cursor.rowcount)

    def insert(self, table: str, names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows, tuples in the order of `names`."""
        if self.is_postgres and len(rows) > _FEW:
            with self._cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        self.run_many(write_insert(table, names), rows)


def _write_numbers(some: Sequence[int | None]) -> str:
    return f"{{{','.join(['NULL' if each is None else f'{each:d}' for each in some])}}}"


@lru_cache(maxsize=256)
def write_insert(table: str, names: tuple[str, ...]) -> str:
    places = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608  our names


@lru_cache(maxsize=256)
def _write_marks(text: str) -> str:
    return text.replace("?", "%s")


@lru_cache(maxsize=256)
def _write_given(query: ManyQuery, is_postgres: bool) -> str:
    names = ", ".join(name for name, _ in query.columns)
    join = _EACH_IN_POSTGRES if is_postgres else r"JOIN \1 ON \3"
    text = _EACH.sub(join, query.text)
    if is_postgres:
        lists = ", ".join(f"?::{kind}[]" for _, kind in query.columns)
        return text.replace("{given}", f"unnest({lists}) AS given ({names})")
    parts = ", ".join(
        f"json_extract(value, '$[{nth}]') AS {name}" for nth, (name, _) in enumerate(query.columns)
    )
    table = f"(SELECT {parts} FROM json_each(?)) AS given"  # noqa: S608  our own names
    return text.replace("{given}", table)


T = TypeVar("T")


class ReadSnapshot(QuickStatements):
    """Statements of a transaction whose reads all see the same state.

    `Store.read` opens one for all reads of an operation; `recall` reads each thing once.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._known: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the cached value of a key, or read and cache it."""
        if key not in self._known:
            self._known[key] = read()
        found: T = self._known[key]
        return found
