"""OTLP in protobuf: batches of spans, and one span.

Imports protobuf, which is heavy, so this module is itself imported only when a file needs it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from tallymark.errors import TraceError
from tallymark.traces.otel_spans import OtelEvent, OtelSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.errors import Place

_ERROR_CODE = 2


class ProtoBatch:
    """The spans of one resource."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.resource = _read_attributes(batch.resource.attributes)

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]:
        """Each span's trace id, and its bytes."""
        for scope in self._batch.scope_spans:
            for span in scope.spans:
                if not span.trace_id:
                    raise TraceError("a span has no trace id", place=place)
                yield span.trace_id.hex(), span.SerializeToString()


def read_request(raw: bytes, place: Place) -> list[ProtoBatch]:
    """The batches of one export request."""
    request = _parse_message(trace_service_pb2.ExportTraceServiceRequest(), raw, place)
    return [ProtoBatch(each) for each in request.resource_spans]


def read_export(raw: bytes, place: Place) -> list[tuple[dict[str, Any], list[Any]]]:
    """What one export request holds: attributes of resources, and their spans as messages."""
    request = _parse_message(trace_service_pb2.ExportTraceServiceRequest(), raw, place)
    return [
        (
            _read_attributes(batch.resource.attributes),
            [span for scope in batch.scope_spans for span in scope.spans],
        )
        for batch in request.resource_spans
    ]


def read_batch(raw: bytes, place: Place) -> ProtoBatch:
    """One `ResourceSpans` message."""
    return ProtoBatch(_parse_message(trace_pb2.ResourceSpans(), raw, place))


def _parse_message(message: Any, raw: bytes, place: Place) -> Any:
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise TraceError(f"not OTLP: {error}", place=place) from None
    return message


def read_span(raw: bytes) -> OtelSpan:
    """A span from its protobuf bytes, ids in hex."""
    return convert_span(trace_pb2.Span.FromString(raw))


def convert_span(span: Any) -> OtelSpan:
    """A span from its message."""
    status = span.status
    return OtelSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        failed=status.code == _ERROR_CODE,
        message=status.message,
        attributes=_read_attributes(span.attributes),
        events=[OtelEvent(event.name, _read_attributes(event.attributes)) for event in span.events],
    )


def _read_attributes(pairs: Any) -> dict[str, Any]:
    # Nearly all are texts; what is none has an empty one.
    return {pair.key: (value := pair.value).string_value or _read_value(value) for pair in pairs}


def _read_value(wrapped: Any) -> Any:
    kind = wrapped.WhichOneof("value")
    if kind == "string_value":
        return wrapped.string_value
    if kind is None:
        return None
    value = getattr(wrapped, kind)
    if kind == "array_value":
        return [_read_value(each) for each in value.values]
    if kind == "kvlist_value":
        return _read_attributes(value.values)
    # As OTLP's JSON writes bytes, so that both encodings give the same trace.
    return base64.b64encode(value).decode() if kind == "bytes_value" else value
