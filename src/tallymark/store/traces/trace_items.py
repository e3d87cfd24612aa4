"""What can be asked of production traces: kept in batches, with what others send."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tallymark.store.retention_policy import QUIET_S
from tallymark.store.traces.segments import Format
from tallymark.traces.span_limits import LIMITS, Lost
from tallymark.traces.trace_facts import TraceFacts


class TracePiece(msgspec.Struct, frozen=True, kw_only=True):
    """What one request brings of one trace."""

    trace_id: str
    format: Format
    body: bytes
    facts: TraceFacts
    lost: Lost = Lost()


class WitnessedPiece(msgspec.Struct, frozen=True, kw_only=True):
    """What one request brings of one attempt."""

    attempt: str
    agent: str | None
    """The agent whose attempt it must be, where only its own are taken."""
    spans: int
    body: bytes


class KeepTraces(msgspec.Struct, frozen=True, kw_only=True):
    """Stores the pieces of one request: the answer is a `KeptTraces`."""

    subject: ClassVar[str] = "traces"

    tenant: str
    at: float
    """By the server's clock, when it came."""
    pieces: tuple[TracePiece, ...]
    witnessed: tuple[WitnessedPiece, ...] = ()
    quiet: float = QUIET_S
    most_spans: int = LIMITS.spans_per_trace


class KeptTraces(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the pieces of one request."""

    traces: int
    spans: int
    refused: int = 0
    """Spans of traces that have as many as they may."""
    not_witnessed: dict[str, int] = {}
    """Spans of attempts that were not taken, by the reason."""
