"""Traces, spans and the readers that bring them in from other tools' files."""

from tallymark.traces.trace import Span, SpanType, Status, Trace

__all__ = ["Span", "SpanType", "Status", "Trace"]
