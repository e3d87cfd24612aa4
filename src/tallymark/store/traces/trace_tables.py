"""The tables of production traces.

**Segments.** What arrives in one request for one trace is a segment: the spans as they came, after
redaction, compressed. Its number is taken under the lock of the trace's row, its moment is the
server's. Nothing is thrown together on arrival, so a span may stand in two segments.

**Traces.** One row per trace has everything that is filtered, summed or listed; a list never reads
a segment. The row is there, with what its segments say so far, as soon as its first spans are
stored. While spans come it is `open`, and `due_at` is when it will have been quiet for long enough.

**Versions.** A trace that is quiet is settled: its new segments become one, spans that came twice
are dropped, the columns are counted from the whole, `version` goes up by one, and a row of
`trace_versions` says so. Late spans open it again, and settling makes the next version, unless
nothing in them is new. Version n is all segments whose `version` is n or less; of those that are
not settled yet it is 0. `undecided` is set with each version, and cleared, in one transaction with
its decisions, by whoever applied the rules to it.

**Labels.** Texts that are filtered by (models, tools, tags and others: see `trace_filters.py`) are
written once in `labels`; `trace_labels` has the traces of each by time.

`rule_tables.py` has the scores. A trace is removed with all of these rows (`retention.py`).
"""

from __future__ import annotations

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

from tallymark.store.dialects import CodePointText, FiniteFloat, RowKey, metadata, partial_index

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
    Column("error", CodePointText),  # the first that a span tells, shortened
    Column("asked", CodePointText),  # its input and its answer, shortened
    Column("answered", CodePointText),
    Column("lost", Text),  # JSON, what was cut or refused, by kind; NULL when it is whole
    Column("bytes", BigInteger, nullable=False),  # of its segments as they are kept
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

labels = Table(
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

# Spans that carried the token of an open attempt, as they came: see `witness.py`.
attempt_spans = Table(
    "attempt_spans",
    metadata,
    Column("attempt", RowKey, nullable=False),  # attempts.key
    Column("number", Integer, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),  # by the server's clock
    Column("spans", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default="0"),  # of the body, unpacked
    PrimaryKeyConstraint("attempt", "number", name="pk_attempt_spans"),
)

# Bytes that were stored of an agent's submissions and witnessed spans, on the last day (UTC) with
# any.
agent_bytes = Table(
    "agent_bytes",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("day", CodePointText, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", name="pk_agent_bytes"),
)

# What a tenant's tokens are made of.
witness_secrets = Table(
    "witness_secrets",
    metadata,
    Column("tenant", CodePointText, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
)
