"""The frames of a file of OTLP protobuf, cut without decoding what is in them.

Three framings are in use. A bare `ExportTraceServiceRequest` is read field by field, so that a
large one is never whole in memory. The collector's file exporter puts four bytes of length
before each request (and may compress each with zstd), others a varint.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from tallymark.errors import TraceError
from tallymark.traces.json_records import MAX_RECORD, size_error
from tallymark.traces.trace_source import DAMAGE, ZSTD_MAGIC, decompress_zstd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from tallymark.errors import Place
    from tallymark.traces.trace_source import TraceSource

_REQUEST_FIELD = b"\x0a"
"""The tag of `resource_spans`, a request's only field."""
_BATCH_FIELDS = (b"\x0a", b"\x12", b"\x1a")


def find_framing(head: bytes) -> str | None:
    """The framing of a file; None if it is not OTLP protobuf."""
    if _starts_request(head):
        return "bare"
    prefixed = int.from_bytes(head[:4], "big")
    payload = head[4:]
    if 0 < prefixed <= MAX_RECORD and (
        _starts_request(payload) or payload.startswith((ZSTD_MAGIC, b'{"resourceSpans"'))
    ):
        return "prefixed"
    size, used = _read_varint(BytesIO(head))
    return "delimited" if size and _starts_request(head[used : used + size]) else None


def _starts_request(head: bytes) -> bool:
    if not head.startswith(_REQUEST_FIELD):
        return False
    size, used = _read_varint(BytesIO(head[1:]))
    return bool(size) and head[1 + used : 2 + used] in _BATCH_FIELDS


def read_frames(source: TraceSource) -> Iterator[tuple[Place, bytes | TraceError]]:
    """Each request, or each batch of a bare one, with its place."""
    stream, kind, at = source.stream, find_framing(source.head), 0
    while start := stream.peek(1)[:1]:
        place = source.place(part=f"byte {at + 1}")
        if kind == "prefixed":
            size, used = int.from_bytes(stream.read(4), "big"), 4
        else:
            tag = stream.read(1) if kind == "bare" else b""
            if kind == "bare" and start != _REQUEST_FIELD:
                raise TraceError("not an OTLP export: an unknown field", place=place)
            size, used = _read_varint(stream)
            used += len(tag)
        if size > MAX_RECORD:
            raise size_error(place)
        payload = stream.read(size)
        if not used or len(payload) < size:
            raise TraceError("the file ends in the middle of a message", place=place)
        at += used + size
        yield place, _expand(payload, place)


def _expand(payload: bytes, place: Place) -> bytes | TraceError:
    if not payload.startswith(ZSTD_MAGIC):
        return payload
    try:
        return decompress_zstd(payload, MAX_RECORD)
    except DAMAGE as error:
        return TraceError(f"damaged: {error}", place=place)


def _read_varint(stream: IO[bytes]) -> tuple[int, int]:
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
