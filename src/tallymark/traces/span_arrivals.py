"""Spans that come in any order, put together into traces.

The spans of a trace may stand anywhere in a file, so they wait, still encoded, until the file
ends. When `WAITING_BYTES` of them have come together they go to disk.
"""

from __future__ import annotations

from errno import ENOSPC
from os import SEEK_END, strerror
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tallymark.errors import Place, TraceError
from tallymark.traces.otel_traces import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallymark.traces.otel_spans import OtelSpan
    from tallymark.traces.trace import Trace

WAITING_BYTES = 32 * 1024 * 1024


class SpanBatch(Protocol):
    """Spans of one resource, still encoded."""

    resource: dict[str, Any]

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]:
        """Each span's trace id, and its bytes."""


class SpanArrival(NamedTuple):
    """A batch of spans with its place and what decodes them."""

    batch: SpanBatch
    place: Place
    decode: Callable[[bytes], OtelSpan]


def assemble_arrivals(
    arrivals: Iterable[SpanArrival | TraceError],
) -> Iterator[Trace | TraceError]:
    """Every trace, in the order of their first spans, or the reason why there is none."""
    with TemporaryFile(buffering=0) as disk:  # or a full disk is noticed only when it is closed
        waiting = _WaitingTraces(disk)
        try:
            for arrival in arrivals:
                yield from [arrival] if isinstance(arrival, TraceError) else waiting.take(arrival)
        except TraceError as error:  # the file ends here, but not the traces that wait
            yield error
        yield from waiting.rest()


class _PendingTrace:
    """The spans of a trace that have come so far: here, and in pieces of the file on disk."""

    __slots__ = ("_decode", "_pieces", "_place", "_resource", "spans")

    def __init__(self, arrival: SpanArrival, resource: dict[str, Any]) -> None:
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

    def take(self, arrival: SpanArrival) -> Iterator[TraceError]:
        """Takes a batch in, and moves spans to disk if too many are waiting."""
        # Most batches come from the same few resources, so each is stored once.
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
