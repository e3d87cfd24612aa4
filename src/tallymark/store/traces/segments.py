"""Bodies of segments: spans as they arrived, packed; read back one by one or as one trace.

Two formats: `otel` has OpenTelemetry's spans by resource, and `trace` a whole trace of another
dialect as its reader understood it.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from tallymark.errors import TraceError
from tallymark.traces.otel_spans import OtelEvent, OtelSpan
from tallymark.traces.otel_traces import assemble
from tallymark.traces.otlp_export import SpanGroup
from tallymark.traces.trace import Trace

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tallymark.traces.trace import Span

Format = Literal["otel", "trace"]
_LEVEL = 1
_own = threading.local()
"""Each thread's compressor: making one takes longer than a small trace."""
_LARGEST_WHOLE = 2**63 - 1
_pack = msgspec.msgpack.Encoder(enc_hook=str).encode
_read_groups = msgspec.msgpack.Decoder(list[SpanGroup]).decode
_read_trace = msgspec.msgpack.Decoder(Trace).decode


class Segment(NamedTuple):
    number: int
    version: int
    format: Format
    body: bytes


def pack_groups(groups: Sequence[SpanGroup]) -> bytes:
    """Pack spans as they came."""
    return _compress(groups)


def pack_trace(trace: Trace) -> bytes:
    """Pack a trace of another dialect."""
    return _compress(trace)


def _compress(value: Any) -> bytes:
    try:
        packed = _pack(value)
    except (OverflowError, UnicodeEncodeError):  # a whole number, or half a character, of no size
        packed = _pack(_clean(value))
    compressor = getattr(_own, "compressor", None)
    if compressor is None:
        compressor = _own.compressor = zstd.ZstdCompressor(_LEVEL)
    whole: bytes = compressor.compress(packed, compressor.FLUSH_FRAME)
    return whole


def _clean(value: Any) -> Any:
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_WHOLE else str(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, SpanGroup | OtelEvent):
        return type(value)(*map(_clean, value))
    if isinstance(value, OtelSpan):
        names = ("attributes", "events", "name", "message")
        for name in names:
            setattr(value, name, _clean(getattr(value, name)))
        return value
    if isinstance(value, msgspec.Struct):
        return {name: _clean(getattr(value, name)) for name in value.__struct_fields__}
    return value


def open_body(body: bytes) -> bytes:
    """Decompress a body, to be searched: texts are plain in it."""
    opened: bytes = zstd.decompress(body)
    return opened


def measure_body(body: bytes) -> int:
    """Decompressed size of a body, from its header."""
    size: int = zstd.get_frame_info(body).decompressed_size
    return size


def unpack_groups(body: bytes) -> list[SpanGroup]:
    return _read_groups(open_body(body))


def unpack_trace(body: bytes) -> Trace:
    try:
        return _read_trace(open_body(body))
    except RecursionError:  # it was packed where fewer calls were under way
        raise TraceError("a stored trace is nested too deeply to read") from None


class MergedSegments(NamedTuple):
    """Segments with every span once, in the two formats they may have."""

    groups: list[SpanGroup]
    traces: list[Trace]

    def assemble(self) -> Trace:
        """Assemble one trace."""
        parts = [assemble_groups(self.groups), *self.traces] if self.groups else self.traces
        return parts[0] if len(parts) == 1 else _join(parts)


def read_segment(segment: Segment) -> MergedSegments:
    """Read a single segment, which has no span twice."""
    if segment.format == "trace":
        return MergedSegments([], [unpack_trace(segment.body)])
    return MergedSegments(unpack_groups(segment.body), [])


def merge_segments(segments: Iterable[Segment]) -> MergedSegments:
    """Merge segments. Of different reports of a span, the one that ends last counts."""
    groups: dict[bytes, SpanGroup] = {}
    traces: list[Trace] = []
    places: dict[str, tuple[list[OtelSpan], int]] = {}
    for segment in segments:
        if segment.format == "trace":
            told = unpack_trace(segment.body)
            traces += [] if told in traces else [told]
            continue
        for resource, spans in unpack_groups(segment.body):
            key = msgspec.json.encode(resource, enc_hook=str)
            kept = groups.setdefault(key, SpanGroup(resource, [])).spans
            for span in spans:
                if (place := places.get(span.span_id)) is None:
                    places[span.span_id] = (kept, len(kept))
                    kept.append(span)
                elif span.end_ns >= place[0][place[1]].end_ns:
                    place[0][place[1]] = span
    return MergedSegments(list(groups.values()), traces)


def assemble_groups(
    groups: Sequence[SpanGroup], put_together: Callable[..., Trace] = assemble
) -> Trace:
    """Assemble one trace from spans of several resources; its own resource is that of its root."""
    if len(groups) == 1:
        return put_together(groups[0].spans, groups[0].resource)
    spans = [span for group in groups for span in group.spans]
    known = {span.span_id for span in spans}
    rooted = (group for group in groups if any(span.parent_id not in known for span in group.spans))
    return put_together(spans, next(rooted, groups[0]).resource)


def _join(parts: Sequence[Trace]) -> Trace:
    """Join reports of the same trace: each span once, by its first report."""
    seen: set[str] = set()
    spans: list[Span] = []
    for part in parts:
        fresh = [span for span in part.spans if not span.span_id or span.span_id not in seen]
        spans += fresh
        seen.update(span.span_id for span in fresh)
    spans.sort(key=lambda span: span.start_ms or 0.0)
    first = next(
        (each for each in parts if any(not span.parent_id for span in each.spans)), parts[0]
    )
    return msgspec.structs.replace(first, spans=spans)
