"""OpenTelemetry's OTLP exports, protobuf or JSON, put together into traces.

The spans of a trace may come in several batches, anywhere in the file, so they wait, still
encoded, until the file ends. When `WAITING_BYTES` of them have come together they go to disk.
"""

from __future__ import annotations

from errno import ENOSPC
from os import SEEK_END, strerror
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

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

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]: ...


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
    arrivals = _read_protobuf(source) if sniff_bytes(source.head) else _read_json(source)
    with TemporaryFile(buffering=0) as disk:  # or a full disk is noticed only when it is closed
        waiting = _WaitingTraces(disk)
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
    """The spans of a trace that have come so far: here, and in pieces of the file on disk."""

    __slots__ = ("_decode", "_pieces", "_place", "_resource", "spans")

    def __init__(self, arrival: _Arrival, resource: dict[str, Any]) -> None:
        self.spans: list[bytes] = []
        self._pieces: list[tuple[int, int]] = []
        self._decode = arrival.decode
        self._place = arrival.place
        self._resource = resource

    def move_to(self, disk: IO[bytes]) -> None:
        """Writes the spans to the end of the file."""
        packed = msgspec.msgpack.encode(self.spans)
        start = disk.seek(0, SEEK_END)
        if disk.write(packed) < len(packed):
            raise OSError(ENOSPC, strerror(ENOSPC))
        self._pieces.append((start, len(packed)))
        self.spans = []

    def trace(self, disk: IO[bytes]) -> Trace | TraceError:
        try:
            return assemble([self._decode(raw) for raw in self._all_spans(disk)], self._resource)
        except RecursionError:
            return TraceError("a span is nested too deeply to read", place=self._place)
        except TraceError as error:
            return error

    def _all_spans(self, disk: IO[bytes]) -> Iterator[bytes]:
        for start, size in self._pieces:
            disk.seek(start)
            yield from msgspec.msgpack.decode(disk.read(size), type=list[bytes])
        yield from self.spans


class _WaitingTraces:
    """All traces of a file, in the order of their first spans."""

    def __init__(self, disk: IO[bytes]) -> None:
        self._disk = disk
        self._traces: dict[str, _PendingTrace] = {}
        self._in_memory: set[_PendingTrace] = set()
        self._size = 0
        self._resources: dict[bytes, dict[str, Any]] = {}

    def take(self, arrival: _Arrival) -> Iterator[TraceError]:
        """Takes a batch in, and moves spans to disk if too many are waiting."""
        # Most batches come from the same few resources, so each is kept once.
        key = msgspec.json.encode(arrival.batch.resource)
        resource = self._resources.setdefault(key, arrival.batch.resource)
        try:
            for trace_id, raw in arrival.batch.spans(arrival.place):
                pending = self._traces.get(trace_id)
                if pending is None:
                    pending = self._traces[trace_id] = _PendingTrace(arrival, resource)
                pending.spans.append(raw)
                self._in_memory.add(pending)
                self._size += len(raw)
        except TraceError as error:
            yield error
        if self._size > WAITING_BYTES:
            self._spill(arrival.place)

    def _spill(self, place: Place) -> None:
        try:
            for pending in self._in_memory:
                pending.move_to(self._disk)
        except OSError as error:
            self._traces.clear()  # what is left of them would be parts
            what = f"{WAITING_BYTES >> 20} MB of spans wait, and there is no place on disk for them"
            hint = "let TMPDIR name a folder with more room"
            raise TraceError(f"{what}: {error.strerror}", place=place, hint=hint) from None
        self._in_memory.clear()
        self._size = 0

    def rest(self) -> Iterator[Trace | TraceError]:
        """Every trace."""
        for pending in self._traces.values():
            yield pending.trace(self._disk)
            pending.spans = []


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
