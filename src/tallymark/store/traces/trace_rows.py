"""The tables of production traces, their rows as facts and records, and labels.

**Segments.** The spans of one trace in one request are a segment: stored as they came, after
redaction, compressed. Its number is taken under the lock of the trace's row; its time is the
server's. Nothing is merged on arrival, so a span may be in two segments.

**Traces.** One row per trace has everything that is filtered, summed or listed; a list never reads
a segment. The row exists, with the facts of its segments so far, as soon as the first spans are
stored. While spans arrive it is `open`, and `due_at` is when it will have been quiet long enough.

**Versions.** A quiet trace is finalised (`finalise.py`): its new segments become one, duplicate
spans are dropped, the columns are computed from the whole, `version` goes up by one, and
`trace_versions` gets a row. Late spans reopen it, and finalising makes the next version, unless
nothing in them is new. Version n is all segments whose `version` is n or less; segments that are
not finalised have 0. `undecided` is set with each version, and cleared in one transaction with the
outcomes of the rules that were applied to it.

**Labels.** Texts used by filters (models, tools, tags and others: see `trace_filters.py`) are
stored once in `labels`; `trace_labels` lists the traces of each by time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    RowKey,
    make_storable,
    metadata,
    partial_index,
)
from tallymark.store.quick_statements import ManyQuery
from tallymark.traces.span_limits import Lost
from tallymark.traces.trace_facts import TraceFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallymark.store.quick_statements import QuickStatements


traces = Table(
    "traces",
    metadata,
    Column("key", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("trace_id", CodePointText, nullable=False),
    Column("version", Integer, nullable=False),  # how often it was settled; 0 is never
    Column("segments", Integer, nullable=False),  # the number of the last one
    # By the server's clock.
    Column("first_at", FiniteFloat, nullable=False),
    Column("last_at", FiniteFloat, nullable=False),
    Column("due_at", FiniteFloat),  # NULL once it is settled
    Column("settled_at", FiniteFloat),
    Column("undecided", Boolean, nullable=False),  # rules have not seen this version
    # What the spans say.
    Column("started_at", FiniteFloat, nullable=False),  # the arrival where they do not
    Column("duration", FiniteFloat, nullable=False),  # seconds
    Column("status", CodePointText, nullable=False),  # ok or error
    Column("has_root", Boolean, nullable=False),
    Column("spans", Integer, nullable=False),
    Column("errors", Integer, nullable=False),  # spans that failed
    Column("model_calls", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("tokens", BigInteger),
    Column("cost", FiniteFloat),  # US dollars
    Column("name", CodePointText, nullable=False),
    Column("service", CodePointText),
    Column("service_version", CodePointText),
    Column("session", CodePointText),
    Column("user_name", CodePointText),
    Column("models", Text, nullable=False),  # JSON lists
    Column("tools", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("labels", Text, nullable=False),  # labels.id of all that it has in `trace_labels`
    Column("error", CodePointText),  # the first of its spans, shortened
    Column("asked", CodePointText),  # its input and its answer, shortened
    Column("answered", CodePointText),
    Column("lost", Text),  # JSON, what was cut or refused, by kind; NULL when it is whole
    Column("bytes", BigInteger, nullable=False),  # of its stored segments
    Index("ux_traces_id", "tenant", "trace_id", unique=True),
    Index("ix_traces_started", "tenant", "started_at", "key"),
    Index("ix_traces_duration", "tenant", "duration"),
    Index("ix_traces_first", "tenant", "first_at"),
    partial_index("ix_traces_errors", "tenant", "started_at", "key", where="status = 'error'"),
    partial_index("ix_traces_cost", "tenant", "cost", where="cost IS NOT NULL"),
    partial_index("ix_traces_tokens", "tenant", "tokens", where="tokens IS NOT NULL"),
    partial_index("ix_traces_due", "due_at", where="due_at IS NOT NULL"),
    partial_index("ix_traces_undecided", "tenant", "key", where="undecided"),
    sqlite_autoincrement=True,
)

trace_segments = Table(
    "trace_segments",
    metadata,
    Column("trace", RowKey, nullable=False),  # traces.key
    Column("number", Integer, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("version", Integer, nullable=False),  # the first that has it; 0 until it is settled
    Column("at", FiniteFloat, nullable=False),
    Column("format", CodePointText, nullable=False),  # otel or trace: see `segments.py`
    Column("spans", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("trace", "number", name="pk_trace_segments"),
)

trace_versions = Table(
    "trace_versions",
    metadata,
    Column("trace", RowKey, nullable=False),
    Column("version", Integer, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("settled_at", FiniteFloat, nullable=False),
    Column("spans", Integer, nullable=False),
    PrimaryKeyConstraint("trace", "version", name="pk_trace_versions"),
    sqlite_with_rowid=False,
)

label_rows = Table(
    "labels",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("kind", CodePointText, nullable=False),
    Column("value", CodePointText, nullable=False),
    Index("ux_labels", "tenant", "kind", "value", unique=True),
    sqlite_autoincrement=True,
)

trace_labels = Table(
    "trace_labels",
    metadata,
    Column("label", RowKey, nullable=False),
    Column("started_at", FiniteFloat, nullable=False),
    Column("trace", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    PrimaryKeyConstraint("label", "started_at", "trace", name="pk_trace_labels"),
    sqlite_with_rowid=False,
)
_MOST = 2**63 - 1
ROW_NAMES = tuple(column.name for column in traces.c)
FACT_NAMES = (
    *("started_at", "duration", "status", "has_root", "spans", "errors"),
    *("model_calls", "tool_calls", "input_tokens", "output_tokens", "tokens", "cost"),
    *("name", "service", "service_version", "session", "user_name"),
    *("models", "tools", "tags", "error", "asked", "answered"),
)
"""Columns that follow from the spans."""
_encode = msgspec.json.Encoder().encode
_read_list = msgspec.json.Decoder(tuple[str, ...]).decode
_read_lost = msgspec.json.Decoder(Lost).decode
LISTED = tuple(name for name in ROW_NAMES if name not in ("tenant", "labels", "bytes", "undecided"))
"""Columns that a list reads."""


class TraceOverview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a trace but its spans and scores."""

    id: str
    version: Annotated[int, Meta(description="Counts how often it was settled; 0 while open.")]
    state: Literal["open", "settled"]
    segments: int
    first_at: float
    last_at: float
    settled_at: float | None
    started_at: Annotated[float, Meta(description="Unix time in seconds, by the agent's clock.")]
    duration: Annotated[float, Meta(description="Seconds.")]
    status: str
    has_root: bool
    spans: int
    errors: int
    model_calls: int
    tool_calls: int
    input_tokens: int | None
    output_tokens: int | None
    tokens: int | None
    cost: Annotated[float | None, Meta(description="US dollars.")]
    name: str
    service: str | None
    service_version: str | None
    session: str | None
    user: str | None
    models: tuple[str, ...]
    tools: tuple[str, ...]
    tags: tuple[str, ...]
    error: str | None
    asked: str | None
    answered: str | None
    lost: Annotated[Lost | None, Meta(description="What was cut or refused; null if nothing.")]


class TraceRecord(TraceOverview, frozen=True, kw_only=True):
    """A trace as lists show it: everything but its spans."""

    key: int
    """Key of the row: for other tables, and for cursors."""


def write_facts(facts: TraceFacts, at: float) -> tuple[Any, ...]:
    """Values of `FACT_NAMES`; a trace without a start gets its arrival as its start."""
    return (
        at if facts.started_at is None else facts.started_at,
        facts.duration if math.isfinite(facts.duration) else 0.0,
        facts.status,
        facts.has_root,
        facts.spans,
        facts.errors,
        facts.model_calls,
        facts.tool_calls,
        _bound(facts.input_tokens),
        _bound(facts.output_tokens),
        _bound(facts.tokens),
        facts.cost if facts.cost is None or math.isfinite(facts.cost) else None,
        make_storable(facts.name),
        _clean(facts.service),
        _clean(facts.version),
        _clean(facts.session),
        _clean(facts.user),
        _write_list(facts.models),
        _write_list(facts.tools),
        _write_list(facts.tags),
        _clean(facts.error),
        _clean(facts.asked),
        _clean(facts.answered),
    )


def read_facts_row(row: dict[str, Any]) -> TraceFacts:
    """Facts from a row, by the names of columns."""
    taken = ("service_version", "user_name", "tokens", "models", "tools", "tags", "has_root")
    return TraceFacts(
        **{name: row[name] for name in FACT_NAMES if name not in taken},
        has_root=bool(row["has_root"]),
        version=row["service_version"],
        user=row["user_name"],
        models=_read_list(row["models"]),
        tools=_read_list(row["tools"]),
        tags=_read_list(row["tags"]),
    )


def read_record(row: Sequence[Any]) -> TraceRecord:
    """Record of a row with the columns `LISTED`."""
    values = dict(zip(LISTED, row, strict=True))
    for name in ("models", "tools", "tags"):
        values[name] = _read_list(values[name])
    return TraceRecord(
        id=values.pop("trace_id"),
        state="settled" if values.pop("due_at") is None else "open",
        lost=read_lost(values.pop("lost")),
        user=values.pop("user_name"),
        has_root=bool(values.pop("has_root")),
        **values,
    )


def list_labels(facts: TraceFacts) -> list[tuple[str, str]]:
    """Kinds and values of all labels of a trace."""
    found = [("model", each) for each in facts.models]
    found += [("tool", each) for each in facts.tools]
    found += [("tag", each) for each in facts.tags]
    for kind, value in (
        ("service", facts.service),
        ("version", facts.version),
        ("session", facts.session),
        ("user", facts.user),
        ("name", facts.name),
    ):
        if value:
            found.append((kind, value))
    return [(kind, make_storable(value)) for kind, value in found]


def write_lost(lost: Lost) -> str | None:
    """JSON, or None if nothing was lost."""
    return msgspec.json.encode(lost).decode() if lost else None


def read_lost(text: str | None) -> Lost | None:
    return None if text is None else _read_lost(text)


def _bound(count: int | None) -> int | None:
    return None if count is None else min(count, _MOST)


def _clean(text: str | None) -> str | None:
    return None if text is None else make_storable(text)


def _write_list(values: tuple[str, ...]) -> str:
    return _encode([make_storable(each) for each in values]).decode() if values else "[]"


Label = tuple[str, str, str]
"""Tenant, kind and value."""
_LABEL_COLUMNS = (("tenant", "text"), ("kind", "text"), ("value", "text"))
_FIND_LABELS = (
    "SELECT l.tenant, l.kind, l.value, l.id FROM {given} JOIN labels l"
    " ON l.tenant = given.tenant AND l.kind = given.kind AND l.value = given.value"
)
# Locked until the end, so that labels without traces are not removed now.
_FIND_AND_LOCK_LABELS = f"{_FIND_LABELS} ORDER BY l.id FOR KEY SHARE OF l"
_ADD_LABELS = (
    "INSERT INTO labels (tenant, kind, value) SELECT given.tenant, given.kind, given.value"
    " FROM {given}{where} ON CONFLICT DO NOTHING"
)


def find_label_ids(statements: QuickStatements, wanted: Iterable[Label]) -> dict[Label, int]:
    """Ids of labels; new labels are made."""
    # In one order everywhere, so that two servers that make the same ones wait, and do not lock up.
    asked = sorted(set(wanted))
    text = _FIND_AND_LOCK_LABELS if statements.is_postgres else _FIND_LABELS
    find = ManyQuery(text, _LABEL_COLUMNS)
    known = {tuple(row[:3]): row[3] for row in statements.read_many(find, asked)}
    missing = [each for each in asked if each not in known]
    if missing:
        # SQLite would take ON for the condition of a join.
        where = "" if statements.is_postgres else " WHERE true"
        statements.run_given(
            ManyQuery(_ADD_LABELS.replace("{where}", where), _LABEL_COLUMNS), missing
        )
        known |= {tuple(row[:3]): row[3] for row in statements.read_many(find, missing)}
    return known


def write_trace_labels(
    statements: QuickStatements, tenant: str, trace: int, started_at: float, ids: Iterable[int]
) -> None:
    """Put labels on a trace."""
    rows = [(each, started_at, trace, tenant) for each in ids]
    statements.insert("trace_labels", ("label", "started_at", "trace", "tenant"), rows)


def remove_trace_labels(
    statements: QuickStatements, trace: int, started_at: float, ids: str
) -> None:
    """Remove all labels from a trace; `ids` is the column `labels` of its row."""
    statements.run_many(
        "DELETE FROM trace_labels WHERE label = ? AND started_at = ? AND trace = ?",
        [(each, started_at, trace) for each in msgspec.json.decode(ids, type=list[int])],
    )
