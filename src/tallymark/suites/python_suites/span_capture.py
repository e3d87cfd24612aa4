"""Captures the OpenTelemetry spans that an agent emits during a call, separately for each call.

Each call has its list in a context variable, which follows the agent into its tasks. A span belongs
to the list of the context in which it starts, otherwise to that of its parent: this covers threads
to which the agent propagates OpenTelemetry's context.
"""

from __future__ import annotations

from contextvars import ContextVar
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tallymark.traces import Trace, traces_from_otel

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, Span

_HAS_SDK = find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None
if _HAS_SDK:
    from tallymark.suites.python_suites.otel_processor import CaptureProcessor, find_provider


class CaughtSpans:
    """The spans of one call."""

    __slots__ = ("closed", "ended", "ids")

    def __init__(self) -> None:
        self.closed = False
        self.ended: list[ReadableSpan] = []
        self.ids: list[int] = []


CURRENT_CATCH: ContextVar[CaughtSpans | None] = ContextVar("tallymark_catch", default=None)


class SpanCapture:
    """Catches the spans of every call, on one tracer provider."""

    def __init__(self) -> None:
        self._catches: dict[int, CaughtSpans] = {}

    def close(self, catch: CaughtSpans) -> Trace | None:
        """One trace of all that was caught; what starts or ends later does not belong to it."""
        catch.closed = True
        for span_id in catch.ids:
            self._catches.pop(span_id, None)
        if not catch.ended:
            return None
        traces = traces_from_otel(catch.ended)
        if len(traces) == 1:
            return traces[0]
        return Trace(spans=[span for trace in traces for span in trace.spans])

    def note_start(self, span: Span) -> None:
        """Note to which catch a new span belongs."""
        catch = CURRENT_CATCH.get()
        if catch is None and span.parent is not None:
            catch = self._catches.get(span.parent.span_id)
        if catch is None or catch.closed:
            return
        span_id = span.get_span_context().span_id
        catch.ids.append(span_id)
        self._catches[span_id] = catch

    def note_end(self, span: ReadableSpan) -> None:
        """Put a finished span into its catch."""
        context = span.get_span_context()
        catch = None if context is None else self._catches.get(context.span_id)
        if catch is not None:
            catch.ended.append(span)


_captures: WeakKeyDictionary[Any, SpanCapture] = WeakKeyDictionary()
# Two runs in two threads must not put two processors on one provider.
_lock = Lock()


def open_capture() -> SpanCapture | None:
    """The capture on the global tracer provider, or None where nothing can be captured.

    Without a provider, the SDK's is set as the global one: so what is instrumented with the API
    alone becomes visible.
    """
    if not _HAS_SDK:
        return None
    with _lock:
        provider = find_provider()
        if provider is None:
            return None
        if provider not in _captures:
            _captures[provider] = SpanCapture()
            provider.add_span_processor(CaptureProcessor(_captures[provider]))
        return _captures[provider]
