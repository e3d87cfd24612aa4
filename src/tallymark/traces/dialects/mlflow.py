"""MLflow's own traces, as `Trace.to_json()` and its downloads have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import as_count, as_label, as_list, as_mapping
from tallymark.traces.otel_spans import OtelEvent, OtelSpan
from tallymark.traces.otel_traces import assemble

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is such a trace."""
    return "info" in keys and "data.spans" in keys


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    for record in read_records(source):
        try:
            trace = as_mapping(record.decode())
            spans = as_mapping(trace.get("data")).get("spans")
            if isinstance(spans, list):
                info = as_mapping(trace.get("info"))
                name = as_label(info.get("trace_id")) or as_label(info.get("request_id")) or ""
                yield assemble([_read_span(as_mapping(span), name) for span in spans])
            else:
                yield TraceError("not a trace of MLflow: no data.spans in it", place=record.place)
        except RecursionError:
            yield TraceError("the trace is nested too deeply to read", place=record.place)
        except TraceError as error:
            yield error


def _read_span(span: dict[str, Any], trace_id: str) -> OtelSpan:
    """A span of MLflow 3, or of MLflow 2 with its older names."""
    context, status = as_mapping(span.get("context")), as_mapping(span.get("status"))
    times = (("start_time_unix_nano", "start_time"), ("end_time_unix_nano", "end_time"))
    start, end = (span.get(now) or span.get(before) for now, before in times)
    code = status.get("code") or span.get("status_code")
    return OtelSpan(
        trace_id=trace_id,
        span_id=as_label(span.get("span_id")) or as_label(context.get("span_id")) or "",
        parent_id=as_label(span.get("parent_span_id")) or as_label(span.get("parent_id")),
        name=as_label(span.get("name")) or "",
        start_ns=as_count(start) or 0,
        end_ns=as_count(end) or 0,
        failed=code in ("STATUS_CODE_ERROR", "ERROR"),
        message=as_label(status.get("message")) or as_label(span.get("status_message")) or "",
        attributes=as_mapping(span.get("attributes")),
        events=[
            OtelEvent(as_label(event.get("name")) or "", as_mapping(event.get("attributes")))
            for event in map(as_mapping, as_list(span.get("events")))
        ],
    )


DIALECT = Dialect(
    name="mlflow",
    files="MLflow's own traces: one a line, an array, or a single one",
    known_by="`info` and `data` with `spans`",
    read=read,
    sniff=sniff,
)
