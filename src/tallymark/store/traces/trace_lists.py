"""Lists of traces: pages by time, the worst by a score, and what must be looked for in spans."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces.segments import open_body, unpack_groups, unpack_trace
from tallymark.store.traces.trace_filters import (
    FEW,
    Condition,
    TraceFilter,
    compile_filter,
    is_attribute,
    join_conditions,
)
from tallymark.store.traces.trace_rows import LISTED, TraceRecord, read_record
from tallymark.traces.lenient_json import as_text
from tallymark.traces.trace_query import ATTRIBUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallymark.store.database import Database
    from tallymark.traces.trace_query import Term, TraceQuery

_COLUMNS = ", ".join(f"t.{name}" for name in LISTED)
_SCANNED_AT_ONCE = 200
MOST_SCANNED = 20_000
"""Traces whose spans are opened for one page; the next page goes on behind them."""
_BODIES = ManyQuery(
    "SELECT s.trace, s.format, s.body FROM {given} JOIN trace_segments s ON s.trace = given.trace",
    (("trace", "bigint"),),
)
TracePlace = tuple[float, int]
"""Where a page ends: the start and the key of its last trace."""


class TracePage(NamedTuple):
    """Some traces."""

    items: list[TraceRecord]
    next: TracePlace | None
    """Where to go on; None at the end."""
    scanned: int | None = None
    """How many traces were opened, where columns could not tell."""


class ScoredTrace(NamedTuple):
    """A trace with one of its scores."""

    value: float
    trace: TraceRecord


def list_page(
    database: Database, tenant: str, query: TraceQuery, after: TracePlace | None, limit: int
) -> TracePage:
    """The newest traces that fit, after a place."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        found = compile_filter(statements, tenant, query)
        if found.empty:
            return TracePage([], None, 0 if query.scanned else None)
        if query.scanned:
            return _scan(statements, found, query.scanned, after, limit)
        rows = _read_newest(statements, found, after, limit + 1)
    items = [read_record(row) for row in rows[:limit]]
    more = (items[-1].started_at, items[-1].key) if len(rows) > limit else None
    return TracePage(items, more)


def _read_newest(
    statements: QuickStatements, found: TraceFilter, after: TracePlace | None, limit: int
) -> list[tuple[Any, ...]]:
    """Along the index that gives few; else along one that is in order of time."""
    place = []
    if after is not None:
        place = [Condition("(t.started_at, t.key) < (?, ?)", after)]
    where = join_conditions((*found.conditions, *place))
    best = found.best
    # SQLite keeps to the order in which tables are named only where it is told so.
    join = "JOIN" if statements.is_postgres else "CROSS JOIN"
    if best is not None and best.count <= FEW:
        source = f"(SELECT DISTINCT * FROM ({best.keys.text}) AS x) AS k"  # noqa: S608
        text = f"FROM {source} {join} traces t ON t.key = k.key WHERE {where.text}"
        order, values = "t.started_at DESC, t.key DESC", (*best.keys.values, *where.values)
    elif (label := next((way.label for way in found.ways if way.label), None)) is not None:
        text = f"FROM trace_labels d {join} traces t ON t.key = d.trace WHERE d.label = {label}"
        order, values = "d.started_at DESC, d.trace DESC", where.values
        if after is not None:
            text += " AND (d.started_at, d.trace) < (?, ?)"
            values = (*after, *values)
        text += f" AND {where.text}"
    else:
        errors = any("status = 'error'" in way.keys.text for way in found.ways)
        index = "ix_traces_errors" if errors else "ix_traces_started"
        by = "" if statements.is_postgres else f" INDEXED BY {index}"
        text = f"FROM traces t{by} WHERE {where.text}"
        order, values = "t.started_at DESC, t.key DESC", where.values
    query = f"SELECT {_COLUMNS} {text} ORDER BY {order} LIMIT {int(limit)}"
    return statements.read(query, *values)


def _scan(
    statements: QuickStatements,
    found: TraceFilter,
    terms: Sequence[Term],
    after: TracePlace | None,
    limit: int,
) -> TracePage:
    """Opens the spans of what fits otherwise, newest first, until there are enough."""
    items: list[TraceRecord] = []
    opened = 0
    while opened < MOST_SCANNED:
        rows = _read_newest(statements, found, after, _SCANNED_AT_ONCE)
        records = [read_record(row) for row in rows]
        fits = _find_in_spans(statements, [each.key for each in records], terms)
        for each in records:
            opened += 1
            after = (each.started_at, each.key)
            if each.key in fits:
                items.append(each)
                if len(items) == limit:
                    return TracePage(items, after, opened)
        if len(rows) < _SCANNED_AT_ONCE:
            return TracePage(items, None, opened)
    return TracePage(items, after, opened)


def _find_in_spans(
    statements: QuickStatements, keys: Sequence[int], terms: Sequence[Term]
) -> set[int]:
    """Those of the traces in whose spans all terms are true."""
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
        rows = statements.read(
            f"SELECT c.value, {_COLUMNS} FROM trace_scores c {join} traces t ON t.key = c.trace"  # noqa: S608
            " WHERE c.tenant = ? AND c.name = ? AND c.is_current AND c.value IS NOT NULL"
            f" AND {where.text} ORDER BY c.value {order}, c.trace DESC LIMIT {int(limit)}",
            *(tenant, score, *where.values),
        )
    return [ScoredTrace(row[0], read_record(row[1:])) for row in rows]


def choose_keys(
    database: Database, tenant: str, query: TraceQuery, keys: Sequence[int]
) -> set[int]:
    """Those of the traces with these keys that fit: how a rule's filter is applied."""
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
