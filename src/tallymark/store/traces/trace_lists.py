"""Lists of traces: pages by time, the worst by a score, and searches in spans."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces.segments import open_body, unpack_groups, unpack_trace
from tallymark.store.traces.trace_filters import (
    Condition,
    TraceFilter,
    Way,
    compile_filter,
    is_attribute,
    join_conditions,
    write_counted,
)
from tallymark.store.traces.trace_rows import LISTED, TraceRecord, read_record
from tallymark.traces.lenient_json import as_text
from tallymark.traces.trace_query import ATTRIBUTE, PEOPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallymark.store.database import Database
    from tallymark.traces.trace_query import Term, TraceQuery

_COLUMNS = ", ".join(f"t.{name}" for name in LISTED)
_SCANNED_AT_ONCE = 200
_PIECE = 500
_PIECES = (1_000, 3_000, 11_000)
"""Rows of the index by time that are looked at for one page, as long as it is not full."""
_MOST_ASKS = 20_000
"""Maximal index lookups in other tables for one page."""
MOST_SCANNED = 20_000
"""Traces whose spans are opened for one page; the next page goes on behind them."""
_BODIES = ManyQuery(
    "SELECT s.trace, s.format, s.body FROM {given} {each trace_segments s: s.trace = given.trace}",
    (("trace", "bigint"),),
)
TracePlace = tuple[float, int]
"""End of a page: the start and the key of its last trace."""


class RecordPage(NamedTuple):
    """A page of traces."""

    items: list[TraceRecord]
    next: TracePlace | None
    """Place to continue at; None at the end."""
    scanned: int | None = None
    """Number of traces examined one by one, if no index could be used: the page may be short, and
    `next` continues after them."""


class ScoredTrace(NamedTuple):
    """A trace with one of its scores."""

    value: float
    trace: TraceRecord


def list_page(
    database: Database, tenant: str, query: TraceQuery, after: TracePlace | None, limit: int
) -> RecordPage:
    """The newest traces that match, after a place."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        found = compile_filter(statements, tenant, query)
        if found.empty:
            return RecordPage([], None, 0 if query.scanned else None)
        if query.scanned:
            return _scan(statements, found, query.scanned, after, limit)
        walked = _walk(statements, found, after, limit + 1)
    items = [read_record(row) for row in walked.rows[:limit]]
    if len(walked.rows) > limit:
        return RecordPage(items, (items[-1].started_at, items[-1].key))
    return RecordPage(items, walked.rest, None if walked.rest is None else walked.looked)


def list_newest(
    statements: QuickStatements, found: TraceFilter, limit: int
) -> tuple[list[int], bool]:
    """Keys of the newest traces that match, and whether there may be others."""
    walked = _walk(statements, found, None, limit + 1, "t.key")
    is_cut = len(walked.rows) > limit or walked.rest is not None
    return [row[0] for row in walked.rows[:limit]], is_cut


class _Walked(NamedTuple):
    """Rows found along an index."""

    rows: list[tuple[Any, ...]]
    rest: TracePlace | None = None
    """Place to continue at; None at the end of the index."""
    looked: int = 0


def _walk(
    statements: QuickStatements,
    found: TraceFilter,
    after: TracePlace | None,
    limit: int,
    columns: str = _COLUMNS,
) -> _Walked:
    """The newest traces that match: along a selective index, else piece by piece along time.

    Conditions that are each met often, but hardly ever together, would otherwise be tried on a
    million rows.
    """
    if (few := found.few) is not None:
        return _Walked(_read_few(statements, found, few, after, limit, columns))
    path = _choose_path(statements, found)
    rows: list[tuple[Any, ...]] = []
    looked = 0
    for piece in path.pieces:
        rest = _find_end(statements, path, after, piece)
        rows += _read_piece(statements, path, (after, rest), limit - len(rows), columns)
        looked += piece
        if len(rows) == limit or rest is None:
            return _Walked(rows)
        after = rest
    return _Walked(rows, after, looked)


class _Path(NamedTuple):
    """An index in the order of time: its table, its key of a trace, and which of its rows."""

    table: str
    key: str
    where: Condition
    meets: Sequence[Condition]
    """Conditions on each trace."""

    @property
    def pieces(self) -> Sequence[int]:
        """Rows to look at for one page, as long as it is not full."""
        asks = sum(each.asks for each in self.meets)
        if self.key == "key" and not asks:
            return _PIECES
        most = _MOST_ASKS // (asks + 2)
        return (_PIECE, most - _PIECE) if most > _PIECE else (most,)


def _choose_path(statements: QuickStatements, found: TraceFilter) -> _Path:
    labelled = [way for way in found.ways if way.label is not None]
    if labelled:  # the one that reaches back furthest is the rarest
        way = min(labelled, key=lambda way: way.oldest)
        rest = [each for each in found.conditions if each is not way.meets]
        where = join_conditions((Condition(f"label = {way.label}"), *found.times))
        return _Path("trace_labels", "trace", where, rest)
    errors = any("status = 'error'" in way.source.text for way in found.ways)
    index = "ix_traces_errors" if errors else "ix_traces_started"
    by = "" if statements.is_postgres else f" INDEXED BY {index}"
    tenant, *rest = found.conditions
    rows = [tenant, *([Condition("t.status = 'error'")] if errors else ()), *found.times]
    return _Path(f"traces t{by}", "key", join_conditions(rows), rest)


def _find_end(
    statements: QuickStatements, path: _Path, after: TracePlace | None, rows: int
) -> TracePlace | None:
    """The place of the last of `rows` rows of an index; None if there are fewer."""
    where = join_conditions((path.where, *_write_bounds(path, (after, None))))
    text = (
        f"SELECT started_at, {path.key} FROM {path.table} WHERE {where.text}"  # noqa: S608
        f" ORDER BY started_at DESC, {path.key} DESC LIMIT 1 OFFSET {rows - 1}"
    )
    found = statements.read(text, *where.values)
    return (found[0][0], found[0][1]) if found else None


def _read_piece(
    statements: QuickStatements,
    path: _Path,
    between: tuple[TracePlace | None, TracePlace | None],
    limit: int,
    columns: str,
) -> list[tuple[Any, ...]]:
    where = join_conditions((path.where, *_write_bounds(path, between)))
    if path.key == "key":
        table, order = path.table, "t"
        where = join_conditions((where, *path.meets))
    else:
        # Conditions on other tables come before the lookup of the trace.
        places = f"SELECT started_at, {path.key} AS key FROM {path.table} WHERE {where.text}"  # noqa: S608
        asked = [each for each in path.meets if each.by_place]
        fits = join_conditions((Condition("true"), *asked))
        table = f"(SELECT t.started_at, t.key FROM ({places}) AS t WHERE {fits.text}) AS p"  # noqa: S608
        # Makes each database look traces up one by one.
        if statements.is_postgres:
            table += ", LATERAL (SELECT * FROM traces WHERE key = p.key OFFSET 0) AS t"
        else:
            table += " CROSS JOIN traces t ON t.key = p.key"
        order = "p"
        values = (*where.values, *fits.values)
        where = join_conditions([each for each in path.meets if not each.by_place])
        where = Condition(where.text, (*values, *where.values))
    text = (
        f"SELECT {columns} FROM {table} WHERE {where.text}"  # noqa: S608
        f" ORDER BY {order}.started_at DESC, {order}.key DESC LIMIT {int(limit)}"
    )
    return statements.read(text, *where.values)


def _write_bounds(
    path: _Path, between: tuple[TracePlace | None, TracePlace | None]
) -> list[Condition]:
    """Conditions: after the first place, and up to the second."""
    return [
        Condition(f"(started_at, {path.key}) {sign} (?, ?)", each)
        for sign, each in (("<", between[0]), (">=", between[1]))
        if each is not None
    ]


def _read_few(
    statements: QuickStatements,
    found: TraceFilter,
    way: Way,
    after: TracePlace | None,
    limit: int,
    columns: str,
) -> list[tuple[Any, ...]]:
    place = [] if after is None else [Condition("(t.started_at, t.key) < (?, ?)", after)]
    where = join_conditions((*found.conditions, *place))
    rows, values = write_few(way, is_postgres=statements.is_postgres)
    text = (
        f"SELECT {columns} FROM {rows} WHERE {where.text}"  # noqa: S608
        f" ORDER BY t.started_at DESC, t.key DESC LIMIT {int(limit)}"
    )
    return statements.read(text, *values, *where.values)


def write_few(way: Way, *, is_postgres: bool) -> tuple[str, tuple[Any, ...]]:
    """The traces that an index scan gives, as `t`, with the values of the statement.

    Written so that keys are found first, and then rows one by one: PostgreSQL would otherwise read
    a whole table, or walk along time until there are enough.
    """
    keys = f"SELECT {way.key} AS key {way.source.text}"
    if not is_postgres:
        rows = f"(SELECT DISTINCT key FROM ({keys}) AS x) AS k CROSS JOIN traces t ON t.key = k.key"  # noqa: S608
    elif way.key == "key":
        rows = f"(SELECT * {way.source.text} OFFSET 0) AS t"
    else:
        rows = f"(SELECT * FROM traces WHERE key = ANY(ARRAY({keys})) OFFSET 0) AS t"  # noqa: S608
    return rows, way.source.values


def _scan(
    statements: QuickStatements,
    found: TraceFilter,
    terms: Sequence[Term],
    after: TracePlace | None,
    limit: int,
) -> RecordPage:
    """Search the spans of traces, newest first, until there are enough matches."""
    items: list[TraceRecord] = []
    opened = 0
    while opened < MOST_SCANNED:
        walked = _walk(statements, found, after, _SCANNED_AT_ONCE)
        records = [read_record(row) for row in walked.rows]
        fits = _find_in_spans(statements, [each.key for each in records], terms)
        for each in records:
            opened += 1
            after = (each.started_at, each.key)
            if each.key in fits:
                items.append(each)
                if len(items) == limit:
                    return RecordPage(items, after, opened)
        opened += walked.looked
        if walked.rest is not None:
            after = walked.rest
        elif len(records) < _SCANNED_AT_ONCE:
            return RecordPage(items, None, opened)
    return RecordPage(items, after, opened)


def _find_in_spans(
    statements: QuickStatements, keys: Sequence[int], terms: Sequence[Term]
) -> set[int]:
    """Select the traces in whose spans all terms are true."""
    seen: dict[int, set[Term]] = {key: set() for key in keys}
    for key, format_, body in statements.read_many(_BODIES, [(key,) for key in keys]):
        content = open_body(bytes(body))
        folded = content.lower()
        for term in terms:
            if term in seen[key]:
                continue
            if is_attribute(term):
                true = _has_attribute(bytes(body), format_, term)
            else:
                true = any(
                    each.lower().encode("utf-8", "replace") in folded for each in term.values
                )
            if true:
                seen[key].add(term)
    wanted = {term for term in terms if not term.negated}
    unwanted = {term for term in terms if term.negated}
    return {key for key, true in seen.items() if wanted <= true and not unwanted & true}


def _has_attribute(body: bytes, format_: str, term: Term) -> bool:
    name = term.field.removeprefix(ATTRIBUTE)
    if format_ == "trace":
        holders: Iterable[dict[str, Any]] = (span.metadata for span in unpack_trace(body).spans)
    else:
        groups = unpack_groups(body)
        holders = (
            holder
            for group in groups
            for holder in (group.resource, *(span.attributes for span in group.spans))
        )
    return any(
        fnmatchcase(as_text(holder[name]), value)
        for holder in holders
        if name in holder
        for value in term.values
    )


def list_worst(
    database: Database,
    tenant: str,
    query: TraceQuery,
    score: str,
    *,
    limit: int = 100,
    best: bool = False,
) -> list[ScoredTrace]:
    """The traces with the lowest scores, or the highest, and among equals the newest."""
    order = "DESC" if best else "ASC"
    with database.read() as connection:
        statements = QuickStatements(connection)
        found = compile_filter(statements, tenant, query, ways=False)
        if found.empty:
            return []
        join = "JOIN" if statements.is_postgres else "CROSS JOIN"
        where = found.where
        known = write_counted(statements, tenant, score)
        scores = f"FROM trace_scores WHERE {known.text} AND value IS NOT NULL"
        # Several people may have scored one trace, and it is listed once.
        mean = f"SELECT trace, avg(value) AS value {scores} GROUP BY trace"
        plain = f"SELECT trace, value {scores}"
        source = mean if score.startswith(PEOPLE) else plain
        rows = statements.read(
            f"SELECT c.value, {_COLUMNS} FROM ({source}) AS c {join} traces t ON t.key = c.trace"  # noqa: S608
            f" WHERE {where.text}"
            f" ORDER BY c.value {order}, c.trace DESC LIMIT {int(limit)}",
            *(*known.values, *where.values),
        )
    return [ScoredTrace(row[0], read_record(row[1:])) for row in rows]


def choose_keys(
    database: Database, tenant: str, query: TraceQuery, keys: Sequence[int]
) -> set[int]:
    """Select the traces with these keys that match: a rule's filter."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        found = compile_filter(statements, tenant, query, ways=False)
        if found.empty or not keys:
            return set()
        where = found.where
        chosen = ManyQuery(
            f"SELECT t.key FROM {{given}} JOIN traces t ON t.key = given.key WHERE {where.text}",  # noqa: S608
            (("key", "bigint"),),
        )
        rows = statements.read_many(chosen, [(key,) for key in keys], *where.values)
        fits = {row[0] for row in rows}
        return _find_in_spans(statements, sorted(fits), query.scanned) if query.scanned else fits
