"""The rows of `traces`: facts as columns and back, and the record that the rest of us see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tallymark.store.dialects import make_storable
from tallymark.store.traces.trace_tables import traces
from tallymark.traces.span_limits import Lost
from tallymark.traces.trace_facts import TraceFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

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
"""What a list reads."""


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
    """A stored trace."""

    key: int
    """Of the row: for other tables, and for cursors."""


def write_facts(facts: TraceFacts, at: float) -> tuple[Any, ...]:
    """The values of `FACT_NAMES`; a trace that does not say when it began, began when it came."""
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
    """The facts again, by the names of columns."""
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
    """The record of a row with the columns `LISTED`."""
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
    """The kinds and values of all labels that a trace has."""
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
    """JSON, or NULL when nothing was lost."""
    return msgspec.json.encode(lost).decode() if lost else None


def read_lost(text: str | None) -> Lost | None:
    """The same again."""
    return None if text is None else _read_lost(text)


def _bound(count: int | None) -> int | None:
    return None if count is None else min(count, _MOST)


def _clean(text: str | None) -> str | None:
    return None if text is None else make_storable(text)


def _write_list(values: tuple[str, ...]) -> str:
    return _encode([make_storable(each) for each in values]).decode() if values else "[]"
