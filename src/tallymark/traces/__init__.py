"""Traces, spans and the readers that bring them in from other tools' files.

The readers load when they are first used, so scoring alone does not pay for their import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.traces.trace import Span, SpanType, Status, Trace

if TYPE_CHECKING:
    from tallymark.traces.otel_traces import traces_from_otel
    from tallymark.traces.trace_formats import FORMATS, read_traces

__all__ = ["FORMATS", "Span", "SpanType", "Status", "Trace", "read_traces", "traces_from_otel"]

_LATE = {
    "FORMATS": "tallymark.traces.trace_formats",
    "read_traces": "tallymark.traces.trace_formats",
    "traces_from_otel": "tallymark.traces.otel_traces",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
