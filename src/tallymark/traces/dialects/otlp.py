"""OpenTelemetry's OTLP exports, protobuf or JSON, put together into traces.

The spans of a trace may come in several batches, so they wait, still encoded, until the file
ends or `WAITING_BYTES` of them have come together. Then the trace that got its last span
longest ago is let go, first among those whose root has arrived. A span that comes later than
that starts a second trace with the same id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tallymark.errors import Place, TraceError
from tallymark.traces import otlp_json
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.otel_traces import assemble
from tallymark.traces.otlp_frames import find_framing, read_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tallymark.traces.otel_spans import OtelSpan
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

WAITING_BYTES = 32 * 1024 * 1024
_ARRAYS = (("resourceSpans",), ("resource_spans",))


class _Batch(Protocol):
    resource: dict[str, Any]

    def spans(self, place: Place) -> Iterator[tuple[str, bool, bytes]]: ...


class _Arrival(NamedTuple):
    """A batch of spans with its place and what decodes them."""

    batch: _Batch
    place: Place
    decode: Callable[[bytes], OtelSpan]


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is an export request."""
    return "resourceSpans" in keys or "resource_spans" in keys


def sniff_bytes(head: bytes) -> bool:
    """True when the bytes are an export in protobuf."""
    return find_framing(head) is not None


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    waiting = _WaitingTraces()
    arrivals = _read_protobuf(source) if sniff_bytes(source.head) else _read_json(source)
    try:
        for arrival in arrivals:
            yield from [arrival] if isinstance(arrival, TraceError) else waiting.take(arrival)
    except TraceError as error:  # the file ends here, but not the traces that wait
        yield error
    yield from waiting.rest()


def _read_protobuf(source: TraceSource) -> Iterator[_Arrival | TraceError]:
    bare = find_framing(source.head) == "bare"
    for place, payload in read_frames(source):
        try:
            if isinstance(payload, TraceError):
                yield payload
            elif payload.startswith(b"{") and not bare:  # the collector frames JSON the same way
                for batch in otlp_json.read_request(payload, place):
                    yield _Arrival(batch, place, otlp_json.read_span)
            else:
                yield from _decode_frame(payload, place, bare=bare)
        except TraceError as error:
            yield error


def _decode_frame(payload: bytes, place: Place, *, bare: bool) -> Iterator[_Arrival]:
    from tallymark.traces import otlp_proto  # noqa: PLC0415 (protobuf is heavy)

    if bare:  # then a frame is one field of the request, which is one batch
        yield _Arrival(otlp_proto.read_batch(payload, place), place, otlp_proto.read_span)
        return
    for batch in otlp_proto.read_request(payload, place):
        yield _Arrival(batch, place, otlp_proto.read_span)


def _read_json(source: TraceSource) -> Iterator[_Arrival | TraceError]:
    for record in read_records(source, arrays=_ARRAYS):
        place = record.place
        try:
            if record.path:
                yield _Arrival(otlp_json.read_batch(record.raw, place), place, otlp_json.read_span)
                continue
            for batch in otlp_json.read_request(record.raw, place):
                yield _Arrival(batch, place, otlp_json.read_span)
        except TraceError as error:
            yield error


class _PendingTrace:
    """The spans of a trace that have come so far."""

    def __init__(self, arrival: _Arrival, number: int) -> None:
        self.number = number
        self.spans: list[bytes] = []
        self.size = 0
        self._decode = arrival.decode
        self._place = arrival.place
        self._resource = arrival.batch.resource

    def trace(self) -> Trace | TraceError:
        try:
            return assemble([self._decode(raw) for raw in self.spans], self._resource)
        except RecursionError:
            return TraceError("a span is nested too deeply to read", place=self._place)
        except TraceError as error:
            return error


class _WaitingTraces:
    """Traces that may still get spans; in each group the one longest without any stands first."""

    def __init__(self) -> None:
        self._rooted: dict[str, _PendingTrace] = {}
        self._rootless: dict[str, _PendingTrace] = {}
        self._size = self._seen = 0

    def take(self, arrival: _Arrival) -> Iterator[Trace | TraceError]:
        """Takes a batch in, and lets traces go if too much is waiting."""
        try:
            for trace_id, is_root, raw in arrival.batch.spans(arrival.place):
                self._add(trace_id, raw, arrival, is_root=is_root)
        except TraceError as error:
            yield error
        while self._size > WAITING_BYTES:
            group = self._rooted or self._rootless
            pending = group.pop(next(iter(group)))
            self._size -= pending.size
            yield pending.trace()

    def _add(self, trace_id: str, raw: bytes, arrival: _Arrival, *, is_root: bool) -> None:
        # Taken out and put in again: a dict keeps the order of insertion, so the first is the one
        # that has waited longest for a span.
        is_root |= trace_id in self._rooted
        pending = self._rooted.pop(trace_id, None) or self._rootless.pop(trace_id, None)
        if pending is None:
            self._seen += 1
            pending = _PendingTrace(arrival, self._seen)
        (self._rooted if is_root else self._rootless)[trace_id] = pending
        pending.spans.append(raw)
        pending.size += len(raw)
        self._size += len(raw)

    def rest(self) -> Iterator[Trace | TraceError]:
        """All that still wait, in the order of their first spans."""
        waiting = [*self._rooted.values(), *self._rootless.values()]
        for pending in sorted(waiting, key=lambda each: each.number):
            yield pending.trace()


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
