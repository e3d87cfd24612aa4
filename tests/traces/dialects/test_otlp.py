"""OTLP exports: encodings, framings, batches."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tallymark.errors import TraceError
from tallymark.traces import Trace, span_arrivals

Read = Callable[..., list[Trace]]
EXPORTS = ["otel_sdk", "pydantic_ai", "pydantic_ai_v2", "openinference", "openllmetry"]


@pytest.mark.parametrize("name", EXPORTS)
def test_json_and_protobuf_hold_the_same_trace(read: Read, name: str) -> None:
    (from_json,), (from_protobuf,) = read(f"{name}.otlp.jsonl"), read(f"{name}.pb")
    assert from_json == from_protobuf


@pytest.mark.parametrize("name", ["pydantic_ai", "pydantic_ai_v2"])
def test_what_pydantic_ai_reports(read: Read, name: str) -> None:
    (trace,) = read(f"{name}.pb")
    agent, first, tool, last = trace.spans
    assert [s.span_type for s in trace.spans] == ["span", "generation", "tool", "generation"]
    assert {s.parent_id for s in (first, tool, last)} == {agent.span_id}
    assert (agent.input, agent.output) == ("How warm is it in Paris?", "It is 12 degrees in Paris.")
    assert (tool.tool_name, tool.tool_input) == ("weather", '{"city":"Paris"}')
    assert tool.tool_output == '{"city":"Paris","degrees":12}'
    assert (last.model, last.input_tokens, last.output_tokens) == ("gpt-4o-mini", 60, 9)
    assert (trace.input_tokens, trace.output_tokens) == (100, 15)
    assert trace.cost == pytest.approx(100 * 0.15e-6 + 15 * 0.6e-6)
    assert trace.last_output == "It is 12 degrees in Paris."
    assert trace.metadata == {"resource": {"service.name": "weather-desk"}}


def test_what_the_sdk_exports_in_the_current_conventions(read: Read) -> None:
    (trace,) = read("otel_sdk.otlp.jsonl")
    (failed,) = trace.tool_calls
    assert (trace.name, trace.status, trace.duration_ms) == ("invoke_agent desk", "ok", 6000.0)
    assert (failed.status, failed.error, failed.duration_ms) == (
        "error",
        "Timeout: no answer",
        1000,
    )
    assert trace.tokens == 108
    assert trace.spans[0].start_ms == 1_760_000_000_000.0


def test_the_openinference_dialect(read: Read) -> None:
    (trace,) = read("openinference.pb")
    assert [s.span_type for s in trace.spans] == ["span", "retrieval", "tool", "generation"]
    assert (trace.tool_names, trace.tool_calls[0].tool_input) == (["lookup"], '{"title":"Emma"}')
    assert [d["content"][:4] for d in trace.spans[1].metadata["documents"]] == ["Emma", "Emma"]
    assert (trace.generations[0].input, trace.last_output) == ("Who wrote it?", "Jane Austen.")


def test_model_calls_alone_give_the_tools_they_asked_for(read: Read) -> None:
    (trace,) = read("openllmetry.otlp.jsonl")
    (tool,) = trace.tool_calls
    assert (tool.tool_name, tool.tool_input, tool.tool_output) == ("add", '{"a":2,"b":3}', "5")


def test_the_collectors_framing_with_lengths(read: Read) -> None:
    assert read("collector.pb") == read("otel_sdk.pb")


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def prefixed(message: bytes) -> bytes:
    return struct.pack(">I", len(message)) + message


@pytest.mark.parametrize(
    "framed",
    [
        lambda pb, _: varint(len(pb)) + pb + varint(len(pb)) + pb,
        lambda pb, _: prefixed(pb) + prefixed(pb),
        lambda pb, _: prefixed(zstandard.compress(pb)) + prefixed(zstandard.compress(pb)),
        lambda _, js: prefixed(js) + prefixed(zstandard.compress(js)),
        lambda pb, _: pb + pb,
        lambda pb, _: zstandard.compress(pb + pb),
        lambda _, js: js + b"\n" + js,
        lambda _, js: b"[" + js + b"," + js + b"]",
        lambda _, js: json.dumps(json.loads(js), indent=2).encode() * 2,
    ],
    ids=[
        "varint",
        "length",
        "length+zstd",
        "length+json",
        "bare",
        "zstd",
        "lines",
        "array",
        "docs",
    ],
)
def test_every_framing_gives_the_same_spans(
    tmp_path: Path, fixtures: Path, read: Read, framed: Callable[[bytes, bytes], bytes]
) -> None:
    js = b"".join((fixtures / "otel_sdk.otlp.jsonl").read_bytes().splitlines()[:1])
    (first,) = read_one(js, tmp_path)
    pb = to_protobuf(js)
    path = tmp_path / "export"
    path.write_bytes(framed(pb, js))
    (trace,) = read(path)
    assert len(trace.spans) == 2 * len(first.spans)
    assert trace.spans[::2] == first.spans


def read_one(raw: bytes, folder: Path) -> list[Trace]:
    from tallymark.traces import read_traces

    (folder / "one.json").write_bytes(raw)
    return list(read_traces(folder / "one.json"))


def to_protobuf(raw: bytes) -> bytes:
    """The export of a JSON request; its ids are hex, which protobuf's own JSON does not know."""
    from google.protobuf import json_format  # type: ignore[import-untyped]
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    data = json.loads(raw)
    spans = data["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ids = [
        [bytes.fromhex(span.pop(key, "")) for key in ("traceId", "spanId", "parentSpanId")]
        for span in spans
    ]
    message = json_format.ParseDict(data, TracesData())
    for span, each in zip(message.resource_spans[0].scope_spans[0].spans, ids, strict=True):
        span.trace_id, span.span_id, span.parent_span_id = each
    return bytes(message.SerializeToString())


def span(trace: str, name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    linked = {"parentSpanId": parent} if parent else {}
    return {"traceId": trace, "spanId": f"{trace}-{name}", "name": name, **linked, **fields}


def request(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def write(path: Path, *requests: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in requests))
    return path


def test_spans_of_a_trace_may_come_in_several_batches(tmp_path: Path, read: Read) -> None:
    path = write(
        tmp_path / "a.json",
        request(span("a", "one", "x"), span("b", "one")),
        request(span("a", "two", "x")),
        request(span("a", "root"), span("c", "one")),
    )
    assert [(t.trace_id, len(t.spans)) for t in read(path)] == [("a", 3), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("bytes_in_memory", [0, 450])
def test_spans_that_wait_on_disk_come_back_to_their_traces(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch, bytes_in_memory: int
) -> None:
    path = write(
        tmp_path / "a.json",
        request(span("open", "one", "later", status={})),
        *(request(span(f"t{i}", "root", events=[])) for i in range(12)),
        request(span("open", "root")),
        request(span("t3", "late", "root")),
    )
    in_memory = read(path)
    monkeypatch.setattr(span_arrivals, "WAITING_BYTES", bytes_in_memory)
    assert read(path) == in_memory
    assert [(t.trace_id, len(t.spans)) for t in in_memory] == [
        ("open", 2),
        *((f"t{i}", 2 if i == 3 else 1) for i in range(12)),
    ]


def test_a_full_disk_is_said(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_arrivals, "WAITING_BYTES", 0)
    monkeypatch.setattr(span_arrivals, "TemporaryFile", partial(open, "/dev/full", "r+b"))
    told: list[TraceError] = []
    path = write(tmp_path / "a.json", request(span("a", "root")))
    assert read(path, skip_broken=True, on_broken=told.append) == []
    assert "there is no place on disk for them: No space left on device" in str(told[0])


def test_a_file_that_is_cut_short_gives_what_came_before(tmp_path: Path, read: Read) -> None:
    whole = json.dumps(request(span("a", "root")), indent=1)
    (tmp_path / "a.json").write_text(whole + whole[:-20])
    told: list[TraceError] = []
    assert len(read(tmp_path / "a.json", skip_broken=True, on_broken=told.append)) == 1
    assert len(told) == 1


@pytest.mark.parametrize(
    ("fields", "failed"),
    [
        ({"status": {"code": 2}}, True),
        ({"status": {"code": "STATUS_CODE_ERROR"}}, True),
        ({"status": {"code": 1}}, False),
        ({"status": {"code": "STATUS_CODE_OK"}}, False),
        ({"status": {}}, False),
        ({}, False),
    ],
)
def test_a_status_is_a_number_or_a_name(
    tmp_path: Path, read: Read, fields: dict[str, Any], failed: bool
) -> None:
    (trace,) = read(write(tmp_path / "a.json", request(span("a", "root", **fields))))
    assert trace.failed is failed


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ({"stringValue": "x"}, "x"),
        ({"intValue": "12"}, 12),
        ({"intValue": 12}, 12),
        ({"intValue": "-3"}, -3),
        ({"intValue": "x"}, None),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "NaN"}, None),
        ({"boolValue": True}, True),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}}, ["a", 1]),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}, {"k": "v"}),
        ({"bytesValue": "aGk="}, "aGk="),
        ({"string_value": "x"}, "x"),
        ({}, None),
        ("x", None),
    ],
)
def test_an_attributes_value(tmp_path: Path, read: Read, value: Any, read_as: Any) -> None:
    attributes = [{"key": "it", "value": value}]
    (trace,) = read(write(tmp_path / "a.json", request(span("a", "r", attributes=attributes))))
    assert trace.spans[0].metadata == {"it": read_as}


@pytest.mark.parametrize("nanos", ["1760000000000000001", 1760000000000000001])
def test_nanoseconds_are_exact(tmp_path: Path, read: Read, nanos: Any) -> None:
    times = {"startTimeUnixNano": nanos, "endTimeUnixNano": "1760000000000000002"}
    (trace,) = read(write(tmp_path / "a.json", request(span("a", "root", **times))))
    assert trace.duration_ms == 1e-6


def test_logs_and_metrics_in_the_same_file_are_passed_over(tmp_path: Path, read: Read) -> None:
    others: list[dict[str, Any]] = [{"resourceLogs": [{}]}, {"resourceMetrics": []}]
    path = write(tmp_path / "a.jsonl", request(span("a", "root")), *others)
    assert len(read(path)) == 1


def test_values_of_every_kind_in_protobuf(tmp_path: Path, read: Read) -> None:
    values = {
        "s": {"stringValue": "x"}, "i": {"intValue": "-3"}, "b": {"bytesValue": "aGk="},
        "a": {"arrayValue": {"values": [{"boolValue": True}, {"doubleValue": 0.5}]}},
        "k": {"kvlistValue": {"values": [{"key": "n", "value": {}}]}},
    }  # fmt: skip
    attributes = [{"key": key, "value": value} for key, value in values.items()]
    raw = json.dumps(
        request({**span("a" * 32, "root"), "spanId": "b" * 16, "attributes": attributes})
    )
    (tmp_path / "a.pb").write_bytes(to_protobuf(raw.encode()))
    (trace,) = read(tmp_path / "a.pb")
    assert trace.spans[0].metadata == {"s": "x", "i": -3, "b": "aGk=", "a": [True, 0.5],
                                       "k": {"n": None}}  # fmt: skip


def test_half_a_surrogate_pair_in_an_export_is_replaced(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.json", request(span("a", "cut \ud83d")))
    assert read(path)[0].name == "cut \ufffd"
    (tmp_path / "b.jsonl").write_text('{"resourceSpans": "\\ud83d"}')
    with pytest.raises(TraceError, match=r"not OTLP: Expected `array \| null`"):
        read(tmp_path / "b.jsonl")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda pb: pb + b"\x10\x01", "not an OTLP export: an unknown field"),
        (lambda _: to_protobuf(json.dumps(request({"name": "x"})).encode()), "no trace id"),
        (lambda pb: pb + b"\x0a\xff\xff\xff\xff\x7f", "is not read"),
    ],
    ids=["another field", "a span without an id", "an enormous length"],
)
def test_what_protobuf_may_not_be(
    tmp_path: Path, fixtures: Path, read: Read, content: Callable[[bytes], bytes], message: str
) -> None:
    (tmp_path / "a.pb").write_bytes(content((fixtures / "otel_sdk.pb").read_bytes()))
    with pytest.raises(TraceError, match=message):
        read(tmp_path / "a.pb")


def test_snake_case_and_the_old_name_of_scopes_are_read(tmp_path: Path, read: Read) -> None:
    snake = {"trace_id": "a", "span_id": "1", "name": "n", "start_time_unix_nano": "1000000",
             "end_time_unix_nano": 3000000}  # fmt: skip
    old = {"traceId": "b", "spanId": "2", "name": "o"}
    path = write(
        tmp_path / "a.json",
        {"resource_spans": [{"scope_spans": [{"spans": [snake]}]}]},
        {"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": [old]}]}]},
    )
    assert [(t.trace_id, t.name, t.duration_ms) for t in read(path)] == [
        ("a", "n", 2.0),
        ("b", "o", 0.0),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"resourceSpans": [{"scopeSpans": 5}]}', "not OTLP: Expected `array | null`, got `int`"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "a span has no traceId"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}', "not OTLP"),
        ('{"resourceSpans": [', "not valid JSON"),
        ('{"resourceSpans": [{"resource":{"attributes":[{"key":"k","value":'
         + '{"arrayValue":{"values":[' * 3000 + "]}}" * 3000 + "}]}}]}", "nested too deeply"),
    ],
)  # fmt: skip
def test_a_broken_batch_is_reported_and_can_be_skipped(
    tmp_path: Path, read: Read, line: str, message: str
) -> None:
    path = write(tmp_path / "a.jsonl", request(span("a", "root")))
    with path.open("a") as file:
        file.write(line + "\n" + json.dumps(request(span("b", "root"))) + "\n")
    with pytest.raises(TraceError) as broken:
        read(path)
    assert str(broken.value).startswith(f"{path}:2: ")
    assert message in str(broken.value)
    assert [t.trace_id for t in read(path, skip_broken=True)] == ["a", "b"]


def test_a_damaged_frame_is_skipped_and_a_cut_one_ends_the_file(
    tmp_path: Path, fixtures: Path, read: Read
) -> None:
    good = (fixtures / "collector.pb").read_bytes()
    path = tmp_path / "a.pb"
    path.write_bytes(good + prefixed(b"\xff\xff\xff") + prefixed(zstandard.compress(b"x")[:-2]))
    told: list[str] = []
    (trace,) = read(path, skip_broken=True, on_broken=lambda e: told.append(str(e)))
    assert len(trace.spans) == 4
    assert [each.split(": ", 1)[0] for each in told] == [
        f"{path}:byte {len(good) + 1}", f"{path}:byte {len(good) + 8}"
    ]  # fmt: skip
    path.write_bytes(good[:-10])
    with pytest.raises(TraceError, match="the file ends in the middle of a message"):
        read(path)
