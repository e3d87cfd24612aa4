"""OpenTelemetry's OTLP exports, protobuf or JSON, put together into traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.errors import TraceError
from tallymark.traces import otlp_json
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.otlp_frames import find_framing, read_frames
from tallymark.traces.span_arrivals import SpanArrival, assemble_arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.errors import Place
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_ARRAYS = (("resourceSpans",), ("resource_spans",))


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is an export request."""
    return "resourceSpans" in keys or "resource_spans" in keys


def sniff_bytes(head: bytes) -> bool:
    """True when the bytes are an export in protobuf."""
    return find_framing(head) is not None


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    return assemble_arrivals(
        _read_protobuf(source) if sniff_bytes(source.head) else _read_json(source)
    )


def _read_protobuf(source: TraceSource) -> Iterator[SpanArrival | TraceError]:
    bare = find_framing(source.head) == "bare"
    for place, payload in read_frames(source):
        try:
            if isinstance(payload, TraceError):
                yield payload
            elif payload.startswith(b"{") and not bare:  # the collector frames JSON the same way
                for batch in otlp_json.read_request(payload, place):
                    yield SpanArrival(batch, place, otlp_json.read_span)
            else:
                yield from _decode_frame(payload, place, bare=bare)
        except TraceError as error:
            yield error


def _decode_frame(payload: bytes, place: Place, *, bare: bool) -> Iterator[SpanArrival]:
    from tallymark.traces import otlp_proto  # noqa: PLC0415 (protobuf is heavy)

    if bare:  # then a frame is one field of the request, which is one batch
        yield SpanArrival(otlp_proto.read_batch(payload, place), place, otlp_proto.read_span)
        return
    for batch in otlp_proto.read_request(payload, place):
        yield SpanArrival(batch, place, otlp_proto.read_span)


def _read_json(source: TraceSource) -> Iterator[SpanArrival | TraceError]:
    for record in read_records(source, arrays=_ARRAYS):
        place = record.place
        try:
            if record.path:
                yield SpanArrival(
                    otlp_json.read_batch(record.raw, place), place, otlp_json.read_span
                )
                continue
            for batch in otlp_json.read_request(record.raw, place):
                yield SpanArrival(batch, place, otlp_json.read_span)
        except TraceError as error:
            yield error


DIALECT = Dialect(
    name="otlp",
    files="OpenTelemetry exports. JSON: one request a line, one document, or an array. "
    "Protobuf: bare, with four bytes of length (the collector's file exporter), or with "
    "a varint",
    known_by="the key `resourceSpans`; the framing",
    read=read,
    sniff=sniff,
    sniff_bytes=sniff_bytes,
    suffixes=(".pb", ".binpb", ".otlp"),
)
