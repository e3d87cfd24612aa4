"""Ingest: spans of several requests, stored in one transaction.

A new trace is written as it is; a known one gets a segment. Until a trace is finalised for the
first time its facts are the sum of its segments. After that they are those of its version: late
spans change them when they are finalised, because an exporter may send a batch twice, and rules and
filters read facts by version. Rows are locked in one order, by tenant and id.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from tallymark.store.dialects import make_storable
from tallymark.store.group_commit import Overtaken
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.retention_policy import QUIET_S, ROOTLESS_QUIET_S
from tallymark.store.row_numbers import take_numbers
from tallymark.store.traces.segments import Format, Segment, merge_segments
from tallymark.store.traces.trace_rows import (
    FACT_NAMES,
    ROW_NAMES,
    find_label_ids,
    list_labels,
    read_facts_row,
    read_lost,
    remove_trace_labels,
    write_facts,
    write_lost,
)
from tallymark.store.traces.witness import keep_witnessed
from tallymark.traces.span_limits import LIMITS, Lost
from tallymark.traces.trace_facts import TraceFacts, combine_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection


class TracePiece(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of one trace in one request."""

    trace_id: str
    format: Format
    body: bytes
    facts: TraceFacts
    lost: Lost = Lost()


class WitnessedPiece(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of one attempt in one request."""

    attempt: str
    agent: str | None
    """The agent whose attempt it must be, where only its own are taken."""
    spans: int
    body: bytes


class KeepTraces(msgspec.Struct, frozen=True, kw_only=True):
    """Stores the pieces of one request; the answer is a `KeptTraces`."""

    subject: ClassVar[str] = "traces"

    tenant: str
    at: float
    """By the server's clock, when it came."""
    pieces: tuple[TracePiece, ...]
    witnessed: tuple[WitnessedPiece, ...] = ()
    quiet: float = QUIET_S
    most_spans: int = LIMITS.spans_per_trace


class KeptTraces(msgspec.Struct, frozen=True, kw_only=True):
    """Result of storing the pieces of one request."""

    traces: int
    spans: int
    refused: int = 0
    """Spans of traces that have as many as they may."""
    not_witnessed: dict[str, int] = {}
    """Spans of attempts that were not taken, by the reason."""


TraceName = tuple[str, str]
"""Tenant and trace id."""
_COLUMNS = (("tenant", "text"), ("trace_id", "text"))
_KNOWN = (
    f"SELECT {', '.join(f't.{name}' for name in ROW_NAMES)} FROM {{given}} JOIN traces t"  # noqa: S608
    " ON t.tenant = given.tenant AND t.trace_id = given.trace_id"
)
_KNOWN_AND_LOCKED = f"{_KNOWN} ORDER BY t.tenant, t.trace_id FOR UPDATE OF t"
_UNSETTLED = ManyQuery(
    "SELECT s.trace, SUM(s.spans) FROM {given} JOIN trace_segments s ON s.trace = given.key"
    " WHERE s.version = 0 GROUP BY s.trace",
    (("key", "bigint"),),
)
_BODIES = "SELECT number, version, format, body FROM trace_segments WHERE trace = ?"
_MOST_COPIES = 4
"""Traces beyond this multiple of their limit are not searched for duplicate spans."""
_SEGMENT_NAMES = ("trace", "number", "tenant", "version", "at", "format", "spans", "body")
_CHANGING = ("segments", "last_at", "due_at", *FACT_NAMES, "labels", "lost", "bytes")
CHANGE = f"UPDATE traces SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE key = ?"  # noqa: S608


@dataclass(slots=True)
class _Row:
    """A trace as it will be stored."""

    tenant: str
    trace_id: str
    key: int
    fresh: bool
    facts: TraceFacts | None
    first_at: float = 0.0
    last_at: float = 0.0
    due_at: float | None = 0.0
    version: int = 0
    arrived: int = 0
    """Spans of all segments; one that came twice counts twice."""
    segments: int = 0
    bytes: int = 0
    lost: Lost = Lost()  # noqa: RUF009 (frozen)
    labels: str = "[]"
    """As stored; below, the start that they were stored with."""
    labelled_at: float = 0.0


class TraceBatch:
    """The requests of one transaction."""

    def __init__(self, connection: Connection, items: Sequence[KeepTraces]) -> None:
        self._statements = QuickStatements(connection)
        self._items = items
        self._rows: dict[TraceName, _Row] = {}
        self._segments: list[tuple[Any, ...]] = []

    def apply(self) -> list[KeptTraces]:
        """Store all requests; return the result of each."""
        self._read_rows()
        answers = [self._take(item) for item in self._items]
        self._write()
        return answers

    def _read_rows(self) -> None:
        names = sorted(
            {
                (item.tenant, make_storable(piece.trace_id))
                for item in self._items
                for piece in item.pieces
            }
        )
        text = _KNOWN_AND_LOCKED if self._statements.is_postgres else _KNOWN
        for found in self._statements.read_many(ManyQuery(text, _COLUMNS), names):
            row = dict(zip(ROW_NAMES, found, strict=True))
            self._rows[row["tenant"], row["trace_id"]] = _Row(
                tenant=row["tenant"],
                trace_id=row["trace_id"],
                key=row["key"],
                fresh=False,
                facts=read_facts_row(row),
                first_at=row["first_at"],
                last_at=row["last_at"],
                due_at=row["due_at"],
                version=row["version"],
                arrived=row["spans"],
                segments=row["segments"],
                bytes=row["bytes"],
                lost=read_lost(row["lost"]) or Lost(),
                labels=row["labels"],
                labelled_at=row["started_at"],
            )
        reopened = [
            each for each in self._rows.values() if each.version and each.due_at is not None
        ]
        if reopened:
            keys = [(each.key,) for each in reopened]
            unsettled = dict(self._statements.read_many(_UNSETTLED, keys))
            for each in reopened:
                each.arrived += int(unsettled.get(each.key, 0))
        new = [name for name in names if name not in self._rows]
        self._make_rows(new)

    def _make_rows(self, names: Sequence[TraceName]) -> None:
        connection = self._statements.connection
        for tenant, count in Counter(tenant for tenant, _ in names).items():
            keys = take_numbers(connection, "traces", tenant, count)
            own = (trace_id for owner, trace_id in names if owner == tenant)
            for trace_id, key in zip(own, keys, strict=True):
                row = _Row(tenant, trace_id, key, fresh=True, facts=None)
                self._rows[tenant, trace_id] = row

    def _take(self, item: KeepTraces) -> KeptTraces:
        kept = refused = 0
        for piece in item.pieces:
            row = self._rows[item.tenant, make_storable(piece.trace_id)]
            spans = piece.facts.spans
            if row.facts is not None and not self._has_room(row, piece, item.most_spans):
                row.lost += Lost(spans_refused=spans)
                refused += spans
                continue
            kept += spans
            _add_piece(row, piece, item)
            segment = (row.key, row.segments, row.tenant, 0, item.at, piece.format, spans)
            self._segments.append((*segment, piece.body))
        not_taken: dict[str, int] = {}
        for each in item.witnessed:
            why = keep_witnessed(self._statements, item.tenant, item.at, each)
            if why is None:
                kept += each.spans
            else:
                not_taken[why] = not_taken.get(why, 0) + each.spans
        return KeptTraces(
            traces=len(item.pieces), spans=kept, refused=refused, not_witnessed=not_taken
        )

    def _has_room(self, row: _Row, piece: TracePiece, most: int) -> bool:
        """Return whether a trace may have these spans too; duplicates do not count."""
        arrived = row.arrived + piece.facts.spans
        if arrived <= most or arrived > most * _MOST_COPIES:
            return arrived <= most
        found = [Segment(*each) for each in self._statements.read(_BODIES, row.key)]
        found += [
            Segment(number, 0, format_, body)
            for key, number, _, _, _, format_, _, body in self._segments
            if key == row.key
        ]
        found.append(Segment(row.segments + 1, 0, piece.format, piece.body))
        merged = merge_segments(found)
        parts: list[Any] = [*merged.groups, *merged.traces]
        return len({each.span_id for part in parts for each in part.spans}) <= most

    def _write(self) -> None:
        rows = list(self._rows.values())
        labels = {
            (row.tenant, row.trace_id): [
                (row.tenant, *each) for each in list_labels(row.facts or TraceFacts())
            ]
            for row in rows
        }
        ids = find_label_ids(self._statements, (each for some in labels.values() for each in some))
        new: list[tuple[Any, ...]] = []
        changed: list[tuple[Any, ...]] = []
        marks: list[tuple[Any, ...]] = []
        for row in rows:
            facts = row.facts or TraceFacts()
            columns = write_facts(facts, row.first_at)
            wanted = sorted({ids[each] for each in labels[row.tenant, row.trace_id]})
            text = msgspec.json.encode(wanted).decode()
            started_at = columns[0]
            if row.fresh or text != row.labels or started_at != row.labelled_at:
                if not row.fresh:
                    remove_trace_labels(self._statements, row.key, row.labelled_at, row.labels)
                marks += [(each, started_at, row.key, row.tenant) for each in wanted]
            lost = write_lost(row.lost)
            if row.fresh:
                new.append((
                    *(row.key, row.tenant, row.trace_id, 0, row.segments),
                    *(row.first_at, row.last_at, row.due_at, None, False),
                    *columns, text, lost, row.bytes,
                ))  # fmt: skip
            else:
                changed.append((
                    *(row.segments, row.last_at, row.due_at),
                    *columns, text, lost, row.bytes, row.key,
                ))  # fmt: skip
        self._insert_new(new)
        self._statements.run_many(CHANGE, changed)
        self._statements.insert("trace_segments", _SEGMENT_NAMES, self._segments)
        self._statements.insert("trace_labels", ("label", "started_at", "trace", "tenant"), marks)

    def _insert_new(self, rows: list[tuple[Any, ...]]) -> None:
        try:
            self._statements.insert("traces", _NEW_NAMES, rows)
        except self._statements.integrity_error:
            # Another server has just got the first spans of one of them too.
            raise Overtaken("a trace came to two servers at once") from None


_NEW_NAMES = (
    *("key", "tenant", "trace_id", "version", "segments"),
    *("first_at", "last_at", "due_at", "settled_at", "undecided"),
    *FACT_NAMES, "labels", "lost", "bytes",
)  # fmt: skip


def _add_piece(row: _Row, piece: TracePiece, item: KeepTraces) -> None:
    if row.facts is None:
        row.facts, row.first_at = piece.facts, item.at
    elif not row.version:
        row.facts = combine_facts(row.facts, piece.facts)
    row.arrived += piece.facts.spans
    row.segments += 1
    row.last_at = max(row.last_at, item.at)
    is_whole = row.facts.has_root or piece.facts.has_root or piece.format == "trace"
    row.due_at = row.last_at + (item.quiet if is_whole else ROOTLESS_QUIET_S)
    row.bytes += len(piece.body)
    row.lost += piece.lost
