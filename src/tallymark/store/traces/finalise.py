"""Finalise traces that were quiet long enough: merge their segments into a new version.

Several servers may do so at once. Segments are read and merged outside of any transaction, and
written only if nothing arrived meanwhile. Nearly all traces come in one segment: those are
finalised together, by three statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces.segments import (
    MergedSegments,
    Segment,
    merge_segments,
    pack_groups,
    pack_trace,
)
from tallymark.store.traces.trace_rows import (
    FACT_NAMES,
    find_label_ids,
    list_labels,
    remove_trace_labels,
    write_facts,
    write_trace_labels,
)
from tallymark.traces.trace_facts import TraceFacts, read_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tallymark.store.database import Database


_DUE = (
    "SELECT key, tenant, version, segments, first_at, started_at, labels FROM traces"
    " WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT ?"
)
_FAR_AHEAD = _DUE.replace("<=", ">")
_LATEST_DUE_S = 7 * 86_400.0
"""No trace is quiet for so long: one that is due later came while the clock was wrong."""
_KEYS = (("key", "bigint"),)
_WHOLE = ManyQuery(
    "UPDATE traces SET version = 1, due_at = NULL, settled_at = {now}, undecided = true"
    " WHERE key IN (SELECT given.key FROM {given}) AND version = 0 AND segments = 1"
    " AND due_at IS NOT NULL RETURNING key",
    _KEYS,
)
_WHOLE_SEGMENTS = ManyQuery(
    "UPDATE trace_segments SET version = 1 WHERE number = 1"
    " AND trace IN (SELECT given.key FROM {given})",
    _KEYS,
)
_WHOLE_VERSIONS = ManyQuery(
    "INSERT INTO trace_versions (trace, version, tenant, settled_at, spans)"
    " SELECT t.key, 1, t.tenant, t.settled_at, t.spans"
    " FROM {given} JOIN traces t ON t.key = given.key",
    _KEYS,
)
_SET_VERSION = (
    "UPDATE traces SET version = ?, due_at = NULL, settled_at = ?, undecided = (undecided OR ?),"  # noqa: S608
    f" {', '.join(f'{name} = ?' for name in FACT_NAMES)}, labels = ?, bytes = ?"
    " WHERE key = ? AND segments = ? AND due_at IS NOT NULL"
)


class _Due(NamedTuple):
    """A trace that was quiet long enough."""

    key: int
    tenant: str
    version: int
    segments: int
    first_at: float
    started_at: float
    labels: str


class _Merged(NamedTuple):
    """The merged segments of a trace."""

    is_new: bool
    facts: TraceFacts
    bodies: list[tuple[str, int, bytes]]
    """Segments of the new version: format, spans, body."""
    bytes: int


def finalise_due(database: Database, now: float, limit: int = 1000) -> int:
    """Finalise traces of all tenants that were quiet long enough; return how many were due."""
    with database.read() as connection:
        statements = QuickStatements(connection)
        found = statements.read(_DUE, now, limit)
        found = found or statements.read(_FAR_AHEAD, now + _LATEST_DUE_S, limit)
    due = [_Due(*row) for row in found]
    whole = [each.key for each in due if each.version == 0 and each.segments == 1]
    if whole:
        database.write(lambda connection: _finalise_whole(connection, whole, now))
    for each in due:
        if each.version or each.segments > 1:
            _finalise_pieces(database, each, now)
    return len(due)


def _finalise_whole(connection: Connection, keys: Sequence[int], now: float) -> None:
    statements = QuickStatements(connection)
    # A float does not go through SQLite's JSON, and this one we made ourselves.
    query = ManyQuery(_WHOLE.text.replace("{now}", repr(float(now))), _KEYS)
    settled = statements.read_many(query, [(key,) for key in sorted(keys)])
    if settled:
        statements.run_given(_WHOLE_SEGMENTS, settled)
        statements.run_given(_WHOLE_VERSIONS, settled)


def _finalise_pieces(database: Database, due: _Due, now: float) -> None:
    with database.read() as connection:
        rows = QuickStatements(connection).read(
            "SELECT number, version, format, body FROM trace_segments"
            " WHERE trace = ? AND number <= ? ORDER BY number",
            *(due.key, due.segments),
        )
    merged = _merge([Segment(*row) for row in rows])
    database.write(lambda connection: _write_version(connection, due, merged, now))


def _merge(segments: Sequence[Segment]) -> _Merged:
    settled = [each for each in segments if each.version]
    before, whole = merge_segments(settled), merge_segments(segments)
    facts = read_facts(whole.assemble())
    fresh = _find_news(before, whole)
    bodies = []
    if fresh.groups:
        spans = sum(len(group.spans) for group in fresh.groups)
        bodies.append(("otel", spans, pack_groups(fresh.groups)))
    bodies += [("trace", len(each.spans), pack_trace(each)) for each in fresh.traces]
    size = sum(len(each.body) for each in settled) + sum(len(body) for _, _, body in bodies)
    return _Merged(bool(bodies), facts, bodies, size)


def _find_news(before: MergedSegments, whole: MergedSegments) -> MergedSegments:
    """Spans that the finalised versions lack, or have with other content."""
    known = {span.span_id: span for group in before.groups for span in group.spans}
    groups = [
        type(group)(group.resource, fresh)
        for group in whole.groups
        if (fresh := [span for span in group.spans if known.get(span.span_id) != span])
    ]
    packed = {msgspec.msgpack.encode(each, enc_hook=str) for each in before.traces}
    traces = []
    for each in whole.traces:
        content = msgspec.msgpack.encode(each, enc_hook=str)
        if content not in packed:
            packed.add(content)
            traces.append(each)
    return MergedSegments(groups, traces)


def _write_version(connection: Connection, due: _Due, merged: _Merged, now: float) -> None:
    statements = QuickStatements(connection)
    version = due.version + merged.is_new
    columns = write_facts(merged.facts, due.first_at)
    wanted = [(due.tenant, *each) for each in list_labels(merged.facts)]
    ids = sorted(set(find_label_ids(statements, wanted).values()))
    labels = msgspec.json.encode(ids).decode()
    values: tuple[Any, ...] = (version, now, merged.is_new, *columns, labels, merged.bytes)
    if not statements.run(_SET_VERSION, *values, due.key, due.segments):
        return  # spans have arrived, or another server was quicker
    if labels != due.labels or columns[0] != due.started_at:
        remove_trace_labels(statements, due.key, due.started_at, due.labels)
        write_trace_labels(statements, due.tenant, due.key, columns[0], ids)
    statements.run("DELETE FROM trace_segments WHERE trace = ? AND version = 0", due.key)
    first = due.segments - len(merged.bodies) + 1
    statements.insert(
        "trace_segments",
        ("trace", "number", "tenant", "version", "at", "format", "spans", "body"),
        [
            (due.key, first + nth, due.tenant, version, now, *body)
            for nth, body in enumerate(merged.bodies)
        ],
    )
    if merged.is_new:
        statements.insert(
            "trace_versions",
            ("trace", "version", "tenant", "settled_at", "spans"),
            [(due.key, version, due.tenant, now, merged.facts.spans)],
        )
