"""An OTLP export request: its spans by trace, and what was refused or cut.

A span that cannot be stored is refused alone, with a reason that goes back to the sender. Only a
body that is not OTLP is refused as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tallymark.errors import Place, TraceError
from tallymark.traces import otlp_json
from tallymark.traces.otel_spans import OtelSpan
from tallymark.traces.span_limits import LIMITS, Lost, fit_span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.traces.span_limits import SpanLimits

Encoding = Literal["protobuf", "json"]
_PLACE = Place(source="body")
_HEX = re.compile(r"[0-9a-f]*")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


class SpanGroup(NamedTuple):
    """Spans of one resource."""

    resource: dict[str, Any]
    spans: list[OtelSpan]


@dataclass(slots=True)
class ArrivedTrace:
    """Spans of one trace in a request."""

    trace_id: str
    groups: list[SpanGroup] = field(default_factory=list)
    lost: Lost = Lost()  # noqa: RUF009 (frozen)
    places: dict[str, tuple[list[OtelSpan], int]] = field(default_factory=dict)
    """The list and index of each span, by its id."""

    @property
    def spans(self) -> int:
        """Number of spans."""
        return len(self.places)


@dataclass(slots=True)
class Export:
    """The content of one request."""

    traces: dict[str, ArrivedTrace] = field(default_factory=dict)
    refused: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    """Reasons for refusing or cutting spans, with their numbers."""

    def refuse(self, why: str, spans: int = 1) -> None:
        """Count refused spans."""
        self.refused += spans
        self.note(why, spans)

    def note(self, why: str, spans: int = 1) -> None:
        """Count spans with a remark."""
        self.problems[why] = self.problems.get(why, 0) + spans


def read_export(raw: bytes, encoding: Encoding, limits: SpanLimits = LIMITS) -> Export:
    """The spans of a request; a body that is no OTLP is a `TraceError`."""
    export = Export()
    if encoding == "protobuf":
        batches = _read_protobuf(raw, limits.bytes_per_span)
    else:
        batches = _read_json(raw)
    for resource, spans in batches:
        groups: dict[str, SpanGroup] = {}
        for span, size in spans:
            if isinstance(span, TraceError):
                export.refuse(span.problems[0].message)
            elif (
                len(span.trace_id) != len(_NO_TRACE)
                or len(span.span_id) != len(_NO_SPAN)
                or span.trace_id == _NO_TRACE
                or span.span_id == _NO_SPAN
            ):
                export.refuse(_describe_wrong_id(span))
            else:
                _take_span(export, groups, resource, (span, size), limits)
    return export


def _take_span(
    export: Export,
    groups: dict[str, SpanGroup],
    resource: dict[str, Any],
    sized: tuple[OtelSpan, int],
    limits: SpanLimits,
) -> None:
    span, size = sized
    if span.parent_id == _NO_SPAN:  # how some write that there is none
        span.parent_id = None
    trace_id = span.trace_id
    trace = export.traces.get(trace_id)
    if trace is None:
        trace = export.traces[trace_id] = ArrivedTrace(trace_id)
    place = trace.places.get(span.span_id)
    if place is None and trace.spans >= limits.spans_per_trace:
        trace.lost += Lost(spans_refused=1)
        export.refuse(f"a trace has at most {limits.spans_per_trace:,} spans")
        return
    if lost := fit_span(span, size, limits):
        trace.lost += lost
        export.note(f"a span has at most {limits.bytes_per_span:,} bytes: cut to fit")
    if place is not None:  # a repeated span replaces the earlier one
        place[0][place[1]] = span
        return
    group = groups.get(trace_id)
    if group is None:
        group = groups[trace_id] = SpanGroup(resource, [])
        trace.groups.append(group)
    trace.places[span.span_id] = (group.spans, len(group.spans))
    group.spans.append(span)


def _describe_wrong_id(span: OtelSpan) -> str:
    wrong = len(span.trace_id) != len(_NO_TRACE) or span.trace_id == _NO_TRACE
    name, zeros = ("traceId", _NO_TRACE) if wrong else ("spanId", _NO_SPAN)
    return f"{name} must be {len(zeros)} hex digits that are not all 0"


def _read_protobuf(
    raw: bytes, least: int
) -> Iterator[tuple[dict[str, Any], Iterator[tuple[Any, int]]]]:
    from tallymark.traces import otlp_proto  # noqa: PLC0415 (protobuf is heavy)

    convert = otlp_proto.convert_span
    # In a small request no span is too large.
    large = len(raw) > least
    for resource, spans in otlp_proto.read_export(raw, _PLACE):
        yield resource, ((convert(each), each.ByteSize() if large else 0) for each in spans)


def _read_json(raw: bytes) -> Iterator[tuple[dict[str, Any], Iterator[tuple[Any, int]]]]:
    for batch in otlp_json.read_request(raw, _PLACE):
        yield batch.resource, ((_read_json_span(each), len(each)) for each in batch.raw_spans())


def _read_json_span(raw: bytes) -> OtelSpan | TraceError:
    try:
        span = otlp_json.read_span(raw)
    except TraceError as error:
        return error
    except RecursionError:
        return TraceError("a span is nested too deeply")
    span.trace_id, span.span_id = _read_hex(span.trace_id), _read_hex(span.span_id)
    span.parent_id = _read_hex(span.parent_id or "") or None
    return span


def _read_hex(text: str) -> str:
    """An id in small letters; what is no hex is no id."""
    text = text.lower()
    return text if _HEX.fullmatch(text) else ""
