"""OTLP in JSON: batches of spans, and one span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import TraceError
from tallymark.traces.lenient_json import as_count, as_label, as_list, as_mapping, decode
from tallymark.traces.otel_spans import OtelEvent, OtelSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.errors import Place

RawSpans = list[msgspec.Raw] | None


class _ScopeSpans(msgspec.Struct):
    spans: RawSpans = None


class _ResourceSpans(msgspec.Struct):
    """Both spellings of every key, and the name from before OTLP 0.15."""

    resource: dict[str, Any] | None = None
    scopeSpans: list[_ScopeSpans] | None = None  # noqa: N815 (as it stands in the file)
    scope_spans: list[_ScopeSpans] | None = None
    instrumentationLibrarySpans: list[_ScopeSpans] | None = None  # noqa: N815


class _Request(msgspec.Struct):
    resourceSpans: list[_ResourceSpans] | None = None  # noqa: N815
    resource_spans: list[_ResourceSpans] | None = None
    resourceLogs: msgspec.Raw = msgspec.Raw()  # noqa: N815 (a collector may write all to one file)
    resourceMetrics: msgspec.Raw = msgspec.Raw()  # noqa: N815


class _Key(msgspec.Struct):
    """The fields of a span that name its trace."""

    traceId: str = ""  # noqa: N815
    trace_id: str = ""


_REQUEST = msgspec.json.Decoder(_Request)
_BATCH = msgspec.json.Decoder(_ResourceSpans)
_KEY = msgspec.json.Decoder(_Key)


class JsonBatch:
    """The spans of one resource, still encoded."""

    def __init__(self, batch: _ResourceSpans) -> None:
        self._batch = batch
        self.resource = _read_attributes(as_mapping(batch.resource).get("attributes"))

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]:
        """Each span's trace id, and its bytes."""
        for raw in self.raw_spans():
            key = _decode_struct(_KEY, raw, place)
            trace_id = key.traceId or key.trace_id
            if not trace_id:
                raise TraceError("a span has no traceId", place=place)
            yield trace_id, raw

    def raw_spans(self) -> Iterator[bytes]:
        """Each span's bytes."""
        batch = self._batch
        scopes = batch.scopeSpans or batch.scope_spans or batch.instrumentationLibrarySpans or []
        for scope in scopes:
            yield from map(bytes, scope.spans or ())


def read_request(raw: bytes, place: Place) -> list[JsonBatch]:
    """The batches of one export request."""
    request = _decode_struct(_REQUEST, raw, place)
    spans = request.resourceSpans if request.resource_spans is None else request.resource_spans
    if spans is None and not bytes(request.resourceLogs) + bytes(request.resourceMetrics):
        raise TraceError("not OTLP: there is no resourceSpans in it", place=place)
    return [JsonBatch(each) for each in spans or ()]


def read_batch(raw: bytes, place: Place) -> JsonBatch:
    """One element of `resourceSpans`."""
    return JsonBatch(_decode_struct(_BATCH, raw, place))


def _decode_struct(decoder: msgspec.json.Decoder[Any], raw: bytes, place: Place) -> Any:
    """The struct; text that only the lenient decoder reads is repaired and decoded again."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise TraceError(f"not OTLP: {error}", place=place) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        mended = msgspec.json.encode(decode(raw, place))
    try:
        return decoder.decode(mended)
    except msgspec.ValidationError as error:
        raise TraceError(f"not OTLP: {error}", place=place) from None


def read_span(raw: bytes) -> OtelSpan:
    """A span from its JSON, ids as they stand in it."""
    span = as_mapping(decode(raw))
    status = as_mapping(span.get("status"))
    return OtelSpan(
        trace_id=_read_either(span, "traceId", "trace_id") or "",
        span_id=_read_either(span, "spanId", "span_id") or "",
        parent_id=_read_either(span, "parentSpanId", "parent_span_id"),
        name=as_label(span.get("name")) or "",
        start_ns=_read_nanos(span, "startTimeUnixNano", "start_time_unix_nano"),
        end_ns=_read_nanos(span, "endTimeUnixNano", "end_time_unix_nano"),
        failed=status.get("code") in (2, "STATUS_CODE_ERROR", "ERROR"),
        message=as_label(status.get("message")) or "",
        attributes=_read_attributes(span.get("attributes")),
        events=[
            OtelEvent(as_label(event.get("name")) or "", _read_attributes(event.get("attributes")))
            for event in map(as_mapping, as_list(span.get("events")))
        ],
    )


def _read_either(span: dict[str, Any], camel: str, snake: str) -> str | None:
    return as_label(span.get(camel)) or as_label(span.get(snake))


def _read_nanos(span: dict[str, Any], camel: str, snake: str) -> int:
    return as_count(span.get(camel)) or as_count(span.get(snake)) or 0


def _read_attributes(pairs: Any) -> dict[str, Any]:
    return {
        str(pair.get("key")): _read_value(pair.get("value"))
        for pair in map(as_mapping, as_list(pairs))
    }


def _read_value(wrapped: Any) -> Any:
    """The value of an `AnyValue`, whose only key names its type."""
    wrapped = as_mapping(wrapped)
    if (said := wrapped.get("stringValue")) is not None:
        return said
    for kind, value in wrapped.items():
        # Both spellings: `int_value` is `intValue`.
        match kind.replace("_v", "V"):
            case "intValue":
                return _read_integer(value)
            case "doubleValue":
                return value if isinstance(value, int | float) else None  # NaN is a string
            case "arrayValue":
                return [_read_value(each) for each in as_list(as_mapping(value).get("values"))]
            case "kvlistValue":
                return _read_attributes(as_mapping(value).get("values"))
            case "stringValue" | "boolValue" | "bytesValue":
                return value
    return None


def _read_integer(value: Any) -> int | None:
    """OTLP writes 64-bit integers as strings."""
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
