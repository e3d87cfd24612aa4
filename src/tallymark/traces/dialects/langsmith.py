"""LangSmith's runs, as its exports and its client have them: one run a line, or an array.

A run is a span, and its inputs and outputs stand where LangSmith's own OpenTelemetry spans have
them, so both are read by the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.dialect import Dialect
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import as_label, as_mapping, compact, decode, to_unix_ms
from tallymark.traces.otel_spans import OtelSpan
from tallymark.traces.span_arrivals import SpanArrival, assemble_arrivals
from tallymark.traces.token_counts import STANDARD, read_usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.errors import Place
    from tallymark.traces.json_records import JsonRecord
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_OLDER = {"input": "prompt", "output": "completion"}


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a run."""
    return "run_type" in keys and "id" in keys


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    return assemble_arrivals(
        SpanArrival(_Run(record), record.place, _read_run) for record in read_records(source)
    )


class _Run:
    """One run, as a batch of its own."""

    def __init__(self, record: JsonRecord) -> None:
        self.resource: dict[str, Any] = {}
        self._record = record

    def spans(self, place: Place) -> Iterator[tuple[str, bytes]]:
        """The run, with the trace that it belongs to."""
        run = as_mapping(self._record.decode())
        trace_id = as_label(run.get("trace_id")) or as_label(run.get("id"))
        if trace_id is None or "run_type" not in run:
            raise TraceError("not a run of LangSmith: it has no id or no run_type", place=place)
        yield trace_id, self._record.raw


def _read_run(raw: bytes) -> OtelSpan:
    run = as_mapping(decode(raw))
    start, end = (to_unix_ms(run.get(key)) or 0 for key in ("start_time", "end_time"))
    outputs = as_mapping(run.get("outputs"))
    metadata = as_mapping(as_mapping(run.get("extra")).get("metadata"))
    told = as_mapping(as_mapping(outputs.get("llm_output")).get("token_usage"))
    usage = (
        as_mapping(outputs.get("usage_metadata"))
        or as_mapping(metadata.get("usage_metadata"))
        # LangChain's older words.
        or {f"{ours}_tokens": told.get(f"{theirs}_tokens") for ours, theirs in _OLDER.items()}
    )
    # A run has 0 if its tokens were not counted.
    counted = {f"{side}_tokens": run.get(f"{old}_tokens") for side, old in _OLDER.items()}
    usage = usage | {key: count for key, count in counted.items() if count}
    counts = read_usage(usage).as_fields()
    error = as_label(run.get("error"))
    known = {
        "langsmith.span.kind": as_label(run.get("run_type")) or "chain",
        "gen_ai.prompt": None if run.get("inputs") is None else compact(run["inputs"]),
        "gen_ai.completion": compact(outputs) if outputs else None,
        "gen_ai.request.model": metadata.get("ls_model_name") or outputs.get("model"),
        "gen_ai.provider.name": metadata.get("ls_provider"),
        **{STANDARD[field]: count for field, count in counts.items()},
        "gen_ai.usage.cost": _read_cost(run.get("total_cost")),
        **{key: each for key, each in metadata.items() if key != "usage_metadata"},
    }
    return OtelSpan(
        trace_id=as_label(run.get("trace_id")) or as_label(run.get("id")) or "",
        span_id=as_label(run.get("id")) or "",
        parent_id=as_label(run.get("parent_run_id")),
        name=as_label(run.get("name")) or "",
        start_ns=int(start * 1e6),
        end_ns=int(end * 1e6),
        failed=error is not None,
        message=error or "",
        attributes={key: value for key, value in known.items() if value is not None},
    )


def _read_cost(value: Any) -> Any:
    """LangSmith writes amounts of money as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return None


DIALECT = Dialect(
    name="langsmith",
    files="LangSmith's runs: one a line, or an array",
    known_by="`run_type` and `id`",
    read=read,
    sniff=sniff,
)
