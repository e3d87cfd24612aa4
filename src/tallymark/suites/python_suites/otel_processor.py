"""The SDK's side of capturing spans. Only loaded where OpenTelemetry's SDK is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

    from tallymark.suites.python_suites.span_capture import SpanCapture


def find_provider() -> TracerProvider | None:
    """The global tracer provider, set here where there was none; None if it cannot be listened to.

    A provider that is not the SDK's is left alone.
    """
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(TracerProvider())
    provider = trace.get_tracer_provider()
    # Tested by its methods, since other distributions have their own classes.
    return provider if hasattr(provider, "add_span_processor") else None  # type: ignore[return-value]


class CaptureProcessor(SpanProcessor):
    """Notifies a capture of every span that starts and ends."""

    def __init__(self, capture: SpanCapture) -> None:
        self._capture = capture

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Called by the SDK."""
        self._capture.note_start(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Called by the SDK."""
        self._capture.note_end(span)
