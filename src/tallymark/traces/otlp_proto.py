"""OTLP in protobuf: the frames of a file, batches of spans, and one span.

Three framings are in use. A bare `ExportTraceServiceRequest` is read field by field, so that a
large one is never whole in memory. The collector's file exporter puts four bytes of length
before each request (and may compress each with zstd), others a varint.
"""

from __future__ import annotations

import base64
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.compression import DAMAGE, ZSTD_MAGIC, unzstd
from tallymark.traces.json_scan import MAX_RECORD, too_large
from tallymark.traces.otel import OtelEvent, OtelSpan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from tallymark.errors import Place
    from tallymark.traces.source import Source

_REQUEST_FIELD = b"\x0a"
"""The tag of `resource_spans`, a request's only field."""
_BATCH_FIELDS = (b"\x0a", b"\x12", b"\x1a")
_ERROR_CODE = 2


def framing(head: bytes) -> str | None:
    """How the file's first bytes are framed; None when they are not OTLP protobuf."""
    if _starts_request(head):
        return "bare"
    prefixed = int.from_bytes(head[:4], "big")
    payload = head[4:]
    if 0 < prefixed <= MAX_RECORD and (
        _starts_request(payload) or payload.startswith((ZSTD_MAGIC, b'{"resourceSpans"'))
    ):
        return "prefixed"
    size, used = _varint(BytesIO(head))
    return "delimited" if size and _starts_request(head[used : used + size]) else None


def _starts_request(head: bytes) -> bool:
    if not head.startswith(_REQUEST_FIELD):
        return False
    size, used = _varint(BytesIO(head[1:]))
    return bool(size) and head[1 + used : 2 + used] in _BATCH_FIELDS


def frames(source: Source) -> Iterator[tuple[Place, bytes | TraceError]]:
    """Each request, or each batch of a bare one, with its place."""
    stream, kind, at = source.stream, framing(source.head), 0
    while start := stream.peek(1)[:1]:
        place = source.place(part=f"byte {at + 1}")
        if kind == "prefixed":
            size, used = int.from_bytes(stream.read(4), "big"), 4
        else:
            tag = stream.read(1) if kind == "bare" else b""
            if kind == "bare" and start != _REQUEST_FIELD:
                raise TraceError("not an OTLP export: an unknown field", place=place)
            size, used = _varint(stream)
            used += len(tag)
        if size > MAX_RECORD:
            raise too_large(place)
        payload = stream.read(size)
        if not used or len(payload) < size:
            raise TraceError("the file ends in the middle of a message", place=place)
        at += used + size
        yield place, _expanded(payload, place)


def _expanded(payload: bytes, place: Place) -> bytes | TraceError:
    if not payload.startswith(ZSTD_MAGIC):
        return payload
    try:
        return unzstd(payload, MAX_RECORD)
    except DAMAGE as error:
        return TraceError(f"damaged: {error}", place=place)


def _varint(stream: IO[bytes]) -> tuple[int, int]:
    """A variable-length integer and the bytes it took; (0, 0) when there is none."""
    value = 0
    for i in range(10):
        byte = stream.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << (7 * i)
        if byte[0] < 0x80:
            return value, i + 1
    return 0, 0


class ProtoBatch:
    """The spans of one resource."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self.resource = _attributes(batch.resource.attributes)

    def spans(self, place: Place) -> Iterator[tuple[str, bool, bytes]]:
        """Each span's trace id, whether it is a root, and its bytes."""
        for scope in self._batch.scope_spans:
            for span in scope.spans:
                if not span.trace_id:
                    raise TraceError("a span has no trace id", place=place)
                yield span.trace_id.hex(), not span.parent_span_id, span.SerializeToString()


def read_request(raw: bytes, place: Place) -> list[ProtoBatch]:
    """The batches of one export request."""
    from opentelemetry.proto.collector.trace.v1 import (  # noqa: PLC0415 - heavy
        trace_service_pb2,
    )

    request = _parsed(trace_service_pb2.ExportTraceServiceRequest(), raw, place)
    return [ProtoBatch(each) for each in request.resource_spans]


def read_batch(raw: bytes, place: Place) -> ProtoBatch:
    """One `ResourceSpans` message."""
    from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: PLC0415 - heavy

    return ProtoBatch(_parsed(trace_pb2.ResourceSpans(), raw, place))


def _parsed(message: Any, raw: bytes, place: Place) -> Any:
    from google.protobuf.message import (  # type: ignore[import-untyped] # noqa: PLC0415
        DecodeError,
    )

    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise TraceError(f"not OTLP: {error}", place=place) from None
    return message


def read_span(raw: bytes) -> OtelSpan:
    """A span from its protobuf bytes, ids in hex."""
    from opentelemetry.proto.trace.v1 import trace_pb2  # noqa: PLC0415 - heavy

    span = trace_pb2.Span.FromString(raw)
    return OtelSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        failed=span.status.code == _ERROR_CODE,
        message=span.status.message,
        attributes=_attributes(span.attributes),
        events=[OtelEvent(event.name, _attributes(event.attributes)) for event in span.events],
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(wrapped: Any) -> Any:
    kind = wrapped.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(wrapped, kind)
    if kind == "array_value":
        return [_value(each) for each in value.values]
    if kind == "kvlist_value":
        return _attributes(value.values)
    return base64.b64encode(value).decode() if kind == "bytes_value" else value
