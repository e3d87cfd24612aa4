"""Export requests as a server takes them: spans by trace, and what is refused or cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.traces.otlp_samples import as_json, as_protobuf, model_call, span

from tallymark.errors import TraceError
from tallymark.traces.otel_spans import OtelSpan
from tallymark.traces.otel_traces import assemble, assemble_counted
from tallymark.traces.otlp_export import Export, read_export
from tallymark.traces.span_limits import SpanLimits
from tallymark.traces.trace_facts import read_facts


def list_spans(export: Export) -> list[object]:
    groups = [group for trace in export.traces.values() for group in trace.groups]
    return [(group.resource, group.spans) for group in groups]


def test_both_encodings_say_the_same() -> None:
    spans = (span(number=1, session__id="s"), model_call(), span(trace=2))
    resource = {"service__name": "desk"}
    one = read_export(as_json(*spans, **resource), "json")
    two = read_export(as_protobuf(*spans, **resource), "protobuf")
    assert list_spans(one) == list_spans(two)
    assert sorted(one.traces) == [f"{1:032x}", f"{2:032x}"]


def test_ids_in_capitals_are_the_same_ids() -> None:
    loud = json.loads(as_json(span(trace=0xABC)))
    loud["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = f"{0xABC:032X}"
    assert list(read_export(json.dumps(loud).encode(), "json").traces) == [f"{0xABC:032x}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("traceId", ""), ("traceId", "0" * 32), ("traceId", "xyz"), ("spanId", "q8/+c2FtcGxl")],
)
def test_a_span_without_a_usable_id_is_refused_alone(field: str, value: str) -> None:
    sent = json.loads(as_json(span(number=1), span(number=2)))
    sent["resourceSpans"][0]["scopeSpans"][0]["spans"][1][field] = value
    export = read_export(json.dumps(sent).encode(), "json")
    assert (export.refused, export.traces[f"{1:032x}"].spans) == (1, 1)
    assert f"{field} must be" in next(iter(export.problems))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"x": 1}', b"\xff"])
def test_what_is_no_export_is_refused_whole(body: bytes) -> None:
    with pytest.raises(TraceError):
        read_export(body, "json")
    with pytest.raises(TraceError):
        read_export(b"\xff\xff" + body, "protobuf")


def test_a_span_that_came_twice_is_there_once() -> None:
    export = read_export(as_json(span(name="begun"), span(name="ended")), "json")
    ((_, (kept,)),) = list_spans(export)  # type: ignore[misc]
    assert kept.name == "ended"  # type: ignore[has-type]


def test_beyond_its_limit_a_trace_takes_no_more_and_says_so() -> None:
    spans = [span(number=number) for number in range(1, 6)]
    export = read_export(as_json(*spans), "json", SpanLimits(spans_per_trace=3))
    trace = export.traces[f"{1:032x}"]
    assert (trace.spans, export.refused, trace.lost.spans_refused) == (3, 2, 2)
    assert trace.lost.describe() == "2 spans refused"


@pytest.mark.parametrize("write", [as_json, as_protobuf])
def test_a_span_of_five_megabytes_is_cut_and_says_so(write: object) -> None:
    long = span(text="x" * 5_000_000, short="stays")
    body = write(long)  # type: ignore[operator]
    export = read_export(body, "json" if write is as_json else "protobuf")
    trace = export.traces[f"{1:032x}"]
    kept = trace.groups[0].spans[0].attributes
    assert kept["short"] == "stays"
    assert len(kept["text"]) < 1_000_000
    assert kept["text"].endswith("more characters were cut]")
    assert (trace.lost.spans_cut, export.refused) == (1, 0)
    assert trace.lost.characters_cut > 4_000_000
    assert export.problems


def test_many_attributes_and_events_are_cut_to_what_is_kept() -> None:
    many: dict[str, Any] = {f"a{number}": 1 for number in range(1500)}
    made = json.loads(as_json(span(**many)))
    inner = made["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    inner["events"] = [{"name": "e", "attributes": []} for _ in range(1200)]
    trace = read_export(json.dumps(made).encode(), "json").traces[f"{1:032x}"]
    kept = trace.groups[0].spans[0]
    assert (len(kept.attributes), len(kept.events)) == (1000, 1000)
    assert (trace.lost.attributes_cut, trace.lost.events_cut) == (500, 200)


RECORDED = [
    *(f"{name}.pb" for name in ("openinference", "openllmetry", "otel_sdk", "pydantic_ai")),
    *("pydantic_ai_v2.pb", "recorded/langfuse.pb", "recorded/langsmith_otel.pb"),
    *("recorded/logfire_openai.pb", "recorded/mlflow.pb", "recorded/openinference_openai.pb"),
    *("recorded/openinference_only_agent.pb", "recorded/openllmetry_openai.pb"),
    "recorded/vercel.pb",
]


@pytest.mark.parametrize("name", RECORDED)
def test_counting_a_recorded_trace_quickly_comes_to_the_same(fixtures: Path, name: str) -> None:
    raw = (fixtures / name).read_bytes()
    for trace_id in read_export(raw, "protobuf").traces:
        # Read anew for each: both change the names of attributes.
        groups = [read_export(raw, "protobuf").traces[trace_id].groups for _ in range(2)]
        whole, counted = (
            read_facts(
                put_together([each for group in some for each in group.spans], some[0].resource)
            )
            for put_together, some in zip((assemble, assemble_counted), groups, strict=True)
        )
        assert msgspec.structs.asdict(counted) == msgspec.structs.asdict(whole)
        assert counted.spans


@pytest.mark.parametrize(("write", "encoding"), [(as_json, "json"), (as_protobuf, "protobuf")])
def test_a_parent_of_zeros_is_none(write: Any, encoding: Any) -> None:
    export = read_export(write(span(parent=0)), encoding)
    assert export.traces[f"{1:032x}"].groups[0].spans[0].parent_id is None


def test_costs_beyond_all_floats_are_taken_in() -> None:
    spans = [OtelSpan("t", str(nth), attributes={"gen_ai.usage.cost": 1.7e308}) for nth in range(3)]
    assert read_facts(assemble(spans)).cost == float("inf")  # which a column has as not known


def test_a_span_that_comes_twice_is_cut_like_any_other() -> None:
    """What is told last counts, and what is too long is cut there too."""
    long = span(number=1, note="x" * 50_000)
    export = read_export(as_json(span(number=1), long), "json", SpanLimits(bytes_per_span=10_000))
    (trace,) = export.traces.values()
    (kept,) = [each for group in trace.groups for each in group.spans]
    assert len(str(kept.attributes["note"])) < 10_000
    assert trace.lost
    assert any("cut to fit" in each for each in export.problems)
