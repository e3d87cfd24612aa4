"""OTLP in protobuf: batches of spans, and one span.

Imports protobuf, which is heavy, so this module is itself imported only when a file needs it.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import TraceError
from tallymark.installation import explain_install
from tallymark.traces.otel_spans import OtelEvent, OtelSpan

try:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2
except ImportError:
    hint = explain_install("tallymark[tracing]")
    raise TraceError("OTLP in protobuf needs opentelemetry-proto", hint=hint) from None

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.errors import Place

_ERROR_CODE = 2
_Fields: TypeAlias = "dict[int, _Fields]"
"""Fields of a message whose values are counted, by number; empty for repeated texts."""
_SINGLE: _Fields = {}
_FIRST_TEXT, _SECOND_TEXT = 1 << 3 | 2, 2 << 3 | 2
_VARINT, _WITH_LENGTH, _LARGEST_BYTE = 0, 2, 0x7F
_WIDTHS = {1: 8, 5: 4}


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
    """Attributes of each resource in an export request, and its spans as messages."""
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


def count_messages(raw: bytes, most: int) -> int:
    """Number of messages and repeated values in an export request; `most` + 1 for more.

    Reads only the tags: a parsed empty message takes some hundred bytes for two on the wire.
    """
    try:
        return _count_messages(raw, most)
    except IndexError:  # it is cut short, which the parser reports
        return 0
    except KeyError:  # groups, which no exporter sends
        return most + 1


def _count_messages(raw: bytes, most: int) -> int:
    count, at = 0, 0
    fields, end = _REQUEST, len(raw)
    above: list[tuple[_Fields, int]] = []
    while count <= most:
        while at >= end:
            if not above:
                return count
            fields, end = above.pop()
        tag = raw[at]
        at += 1
        if tag > _LARGEST_BYTE:
            tag, at = _read_varint(raw, at - 1)
        kind = tag & 7
        if kind == _WITH_LENGTH:
            size = raw[at]
            at += 1
            if size > _LARGEST_BYTE:
                size, at = _read_varint(raw, at - 1)
            inner = fields.get(tag >> 3, _SINGLE)
            if inner is not _SINGLE:
                count += 1
                if inner is _PAIR and _is_text(raw, at, size):
                    count += 1
                elif inner:
                    above.append((fields, end))
                    fields, end = inner, min(end, at + size)
                    continue
            at += size
        elif kind == _VARINT:
            while raw[at] > _LARGEST_BYTE:
                at += 1
            at += 1
        else:
            at += _WIDTHS[kind]
    return count


def _is_text(raw: bytes, at: int, size: int) -> bool:
    """True if an attribute is a short name with a short text, as nearly all are."""
    if size > _LARGEST_BYTE or size < len(b"kkvvtt") or raw[at] != _FIRST_TEXT:
        return False
    value = at + 2 + raw[at + 1]
    inside = at + size - value - 2
    return (
        2 <= inside == raw[value + 1]
        and raw[value] == _SECOND_TEXT
        and raw[value + 2] == _FIRST_TEXT
        and raw[value + 3] == inside - 2
    )


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next begins."""
    value = shift = 0
    while True:
        part = raw[at]
        at += 1
        value |= (part & _LARGEST_BYTE) << shift
        if part <= _LARGEST_BYTE:
            return value, at
        shift += 7


def _list_fields(descriptor: Any, known: dict[str, _Fields]) -> _Fields:
    """The fields of a message that hold messages or repeat; values may hold each other."""
    fields = known.get(descriptor.full_name)
    if fields is None:
        fields = known[descriptor.full_name] = {}
        for each in descriptor.fields:
            if each.message_type is not None:
                fields[each.number] = _list_fields(each.message_type, known)
            elif each.is_repeated:
                fields[each.number] = {}
    return fields


_by_name: dict[str, _Fields] = {}
_REQUEST = _list_fields(trace_service_pb2.ExportTraceServiceRequest.DESCRIPTOR, _by_name)
_PAIR = _by_name["opentelemetry.proto.common.v1.KeyValue"]


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
