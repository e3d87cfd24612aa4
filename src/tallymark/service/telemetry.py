"""Telemetry of a server: spans of requests, batches, jobs and sandbox calls.

Enabled by `OTEL_EXPORTER_OTLP_ENDPOINT`, with OpenTelemetry's SDK; spans are sent as OTLP over
HTTP, which `/v1/traces` also accepts. To avoid loops in a server that traces itself, work on traces
is not traced: neither ingestion, nor its batches and jobs.
"""

from __future__ import annotations

import logging
import urllib.error
import urllib.request
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tallymark.errors import InvalidInput
from tallymark.installation import explain_install
from tallymark.instrumentation import WatchedWork, add_watcher, remove_watcher
from tallymark.service.metrics import name_route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
SERVICE_NAME = "OTEL_SERVICE_NAME"
_ABOUT_TRACES = {"settle", "decide", "rule", "backfill"}
"""Kinds of jobs that new traces bring about."""
_INTAKE = "/v1/traces"
_SECONDS = 10.0
_log = logging.getLogger("tallymark.traces")


def read_endpoint(environment: Mapping[str, str]) -> str:
    """Address for spans, empty if none; InvalidInput if it is invalid."""
    base = environment.get(ENDPOINT, "").rstrip("/")
    whole = environment.get(TRACES_ENDPOINT)
    url = whole or (f"{base}{_INTAKE}" if base else "")
    name = TRACES_ENDPOINT if whole else ENDPOINT
    if url and not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{name} is no http address", hint="write http://HOST:4318")
    if url and find_spec("opentelemetry.sdk") is None:
        raise InvalidInput(
            f"{name} is set, and OpenTelemetry's SDK is not installed",
            hint=explain_install("tallymark[tracing]"),
        )
    return url


def start_tracing(environment: Mapping[str, str]) -> Callable[[], None]:
    """Begins to trace where that is configured; what is given back ends it, all spans sent."""
    url = read_endpoint(environment)
    if not url:
        return lambda: None
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 (only where it is configured)
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    name = environment.get(SERVICE_NAME) or "tallymark"
    provider = TracerProvider(
        resource=Resource.create({"service.name": name}), shutdown_on_exit=False
    )
    exporter = _make_exporter(url, _read_headers(environment.get(HEADERS, "")))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    watcher = _Tracing(provider.get_tracer("tallymark")).watch
    add_watcher(watcher)

    def stop() -> None:
        remove_watcher(watcher)
        provider.shutdown()

    return stop


def _read_headers(text: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in text.split(",") if "=" in each)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


class _Tracing:
    """Opens a span for each piece of work that is no work on traces."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @contextmanager
    def watch(self, work: WatchedWork) -> Iterator[None]:
        if _is_about_traces(work):
            yield
            return
        with self._tracer.start_as_current_span(work.name) as span:
            try:
                yield
            finally:
                span.update_name(_name(work))
                span.set_attributes(dict(_describe(work)))


def _is_about_traces(work: WatchedWork) -> bool:
    if work.name == "request":
        return bool(work.facts["scope"]["path"].startswith(_INTAKE))
    if work.name == "batch":
        return all(getattr(each, "subject", None) == "traces" for each in work.facts["items"])
    return work.name == "job" and work.facts["kind"] in _ABOUT_TRACES


def _name(work: WatchedWork) -> str:
    if work.name == "request":
        scope = work.facts["scope"]
        return f"{scope['method']} {name_route(scope)}"
    return f"{work.name} {work.facts.get('kind') or work.facts.get('thread')}"


def _describe(work: WatchedWork) -> Iterator[tuple[str, Any]]:
    """Never an address: its parts may be secret."""
    if work.name == "request":
        scope = work.facts["scope"]
        yield "http.request.method", scope["method"]
        yield "http.route", name_route(scope)
        yield "tally.request_id", scope.get("tally.request_id", "")
        if work.outcomes:
            yield "http.response.status_code", int(next(iter(work.outcomes)))
        return
    if work.name == "batch":
        yield "tally.items", len(work.facts["items"])
    for outcome, count in work.outcomes.items():
        yield f"tally.outcome.{outcome}", count


def _make_exporter(url: str, headers: dict[str, str]) -> Any:
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415 (as above)
        SpanExporter,
        SpanExportResult,
    )

    class Exporter(SpanExporter):
        """Sends spans as OTLP; spans that cannot be sent are dropped with a log message."""

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            sent = {"Content-Type": "application/x-protobuf", **headers}
            request = urllib.request.Request(url, _encode(spans), sent, method="POST")  # noqa: S310
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS):  # noqa: S310 (the operator's)
                    return SpanExportResult.SUCCESS
            except urllib.error.HTTPError as error:
                _log.warning("%d spans of our own were refused: %s", len(spans), error.code)
            except OSError as error:
                _log.warning("%d spans of our own could not be sent: %s", len(spans), error)
            return SpanExportResult.FAILURE

    return Exporter()


def _encode(spans: Sequence[ReadableSpan]) -> bytes:
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415

    request = trace_service_pb2.ExportTraceServiceRequest()
    told = request.resource_spans.add()
    resource = spans[0].resource.attributes if spans else {}
    _add_attributes(told.resource.attributes, resource)
    scope = told.scope_spans.add()
    scope.scope.name = "tallymark"
    for span in spans:
        context, parent = span.get_span_context(), span.parent
        if context is None:
            continue
        made = scope.spans.add()
        made.trace_id = context.trace_id.to_bytes(16, "big")
        made.span_id = context.span_id.to_bytes(8, "big")
        if parent is not None:
            made.parent_span_id = parent.span_id.to_bytes(8, "big")
        made.name, made.kind = span.name, 2 if "http.route" in (span.attributes or {}) else 1
        made.start_time_unix_nano = span.start_time or 0
        made.end_time_unix_nano = span.end_time or 0
        made.status.code = {"OK": 1, "ERROR": 2}.get(span.status.status_code.name, 0)
        _add_attributes(made.attributes, span.attributes or {})
    return bytes(request.SerializeToString())


def _add_attributes(into: Any, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        made = into.add()
        made.key = name
        if isinstance(value, int):
            made.value.int_value = int(value)
        else:
            made.value.string_value = str(value)
