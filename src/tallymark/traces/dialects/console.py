"""Output of OpenTelemetry's ConsoleSpanExporter: a JSON object for each span, over several lines.

A program's own lines may stand between them, since both go to the same terminal.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import MAX_RECORD, JsonHead, JsonRecord, read_records, size_error
from tallymark.traces.lenient_json import as_label, as_list, as_mapping, decode, to_unix_ms
from tallymark.traces.otel_spans import OtelEvent, OtelSpan
from tallymark.traces.span_arrivals import SpanArrival, assemble_arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.errors import Place
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_MARKS = {"context.trace_id", "context.span_id", "start_time"}
_BEGINNING = re.compile(rb'^\{\r?\n {4}"name": .*\r?\n {4}"context": \{', re.MULTILINE)


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is such a span."""
    return _MARKS.issubset(keys)


def sniff_bytes(head: bytes) -> bool:
    """True when such a span begins somewhere in the first bytes."""
    return _BEGINNING.search(head) is not None


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    printed = sniff_bytes(source.head) and not JsonHead(source.head, whole=source.whole).lines
    records = _read_printed(source) if printed else read_records(source)
    return assemble_arrivals(
        SpanArrival(_Printed(each), each.place, _read_span) for each in records
    )


def _read_printed(source: TraceSource) -> Iterator[JsonRecord]:
    """The objects that begin and end with a brace on a line of its own; other lines are passed."""
    number = begun = 0
    lines: list[bytes] = []
    size = 0
    while line := source.stream.readline(MAX_RECORD + 1):
        number += 1
        end = line.rstrip()
        if end == b"{":
            begun, lines, size = number, [], 0
        if not begun:
            continue
        lines.append(line)
        size += len(line)
        if size > MAX_RECORD:
            raise size_error(source.place(line=begun))
        if end == b"}":
            yield from _make_record(lines, source, begun)
            begun = 0
    if begun:  # cut short
        yield from _make_record(lines, source, begun)


def _make_record(lines: list[bytes], source: TraceSource, begun: int) -> Iterator[JsonRecord]:
    """A span's record; none where the program itself printed something in braces."""
    raw = b"".join(lines)
    if _BEGINNING.match(raw):
        yield JsonRecord(raw, source, begun, None)


class _Printed:
    """One span, as a batch of its own."""

    def __init__(self, record: JsonRecord) -> None:
        self._record = record
        self.resource: dict[str, Any] = {}
        with suppress(TraceError):  # which `spans` raises
            resource = as_mapping(as_mapping(record.decode()).get("resource"))
            self.resource = as_mapping(resource.get("attributes"))

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]:
        """The span, with the trace that it belongs to."""
        context = as_mapping(as_mapping(self._record.decode()).get("context"))
        if not (trace_id := _read_id(context.get("trace_id"))):
            raise TraceError("not a span of the console exporter: no context.trace_id", place=place)
        yield trace_id, self._record.raw


def _read_span(raw: bytes) -> OtelSpan:
    span = as_mapping(decode(raw))
    context, status = as_mapping(span.get("context")), as_mapping(span.get("status"))
    start, end = (to_unix_ms(span.get(key)) or 0 for key in ("start_time", "end_time"))
    return OtelSpan(
        trace_id=_read_id(context.get("trace_id")),
        span_id=_read_id(context.get("span_id")),
        parent_id=_read_id(span.get("parent_id")) or None,
        name=as_label(span.get("name")) or "",
        start_ns=int(start * 1e6),
        end_ns=int(end * 1e6),
        failed=status.get("status_code") == "ERROR",
        message=as_label(status.get("description")) or "",
        attributes=as_mapping(span.get("attributes")),
        events=[
            OtelEvent(as_label(event.get("name")) or "", as_mapping(event.get("attributes")))
            for event in map(as_mapping, as_list(span.get("events")))
        ],
    )


def _read_id(value: Any) -> str:
    """The id without `0x`, as in other formats."""
    return (as_label(value) or "").removeprefix("0x")


DIALECT = Dialect(
    name="console",
    files="what OpenTelemetry's ConsoleSpanExporter prints, also among a program's own lines",
    known_by="`context` with `trace_id` and `span_id`, and `start_time`",
    read=read,
    sniff=sniff,
    sniff_bytes=sniff_bytes,
)
