"""`/v1/traces` by the OTLP specification: answers, encodings, and the meaning of 2xx."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from backports import zstd
from google.protobuf.message import Message  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from tests.http.conftest import FIXTURES, Server
from tests.traces.otlp_samples import START, as_json, as_protobuf, model_call, span, tool_call

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


def send(server: Server, body: bytes, who: str = "rita", **headers: str) -> Any:
    return server.ask(who, "POST", "/v1/traces", content=body, headers={**PROTOBUF, **headers})


def read_answer(body: bytes) -> Message:
    return trace_service_pb2.ExportTraceServiceResponse.FromString(body)


RECORDED = [
    *("openinference.pb", "openllmetry.pb", "otel_sdk.pb", "pydantic_ai.pb"),
    *("recorded/langfuse.pb", "recorded/langsmith_otel.pb", "recorded/logfire_openai.pb"),
    *("recorded/mlflow.pb", "recorded/openinference_openai.pb", "recorded/openllmetry_openai.pb"),
    *("recorded/vercel.pb", "pydantic_ai.otlp.jsonl"),
]


@pytest.mark.parametrize("name", RECORDED)
def test_what_exporters_send_is_what_is_shown(shared: Server, name: str) -> None:
    raw = (FIXTURES / name).read_bytes()
    kind = JSON if name.endswith("jsonl") else PROTOBUF
    for body in raw.splitlines() if kind is JSON else [raw]:
        answered = send(shared, body, **kind)
        assert (answered.status_code, answered.content) == (200, b"{}" if kind is JSON else b"")
        assert answered.headers["content-type"] == kind["Content-Type"]
    shared.service.app.store.traces.finalise(time.time() + 1000)  # some are sent twice
    newest = shared.v1("victor", "GET", "/traces?limit=100").json()["items"]
    asked = {each["asked"] for each in newest if each["tools"]}
    assert asked & {"How warm is it in Paris?", "Who wrote Emma?", "Add 2 and 3.", "Rain in Oslo?"}
    for each in newest:
        whole = shared.v1("victor", "GET", f"/traces/{each['id']}").json()["trace"]
        assert len(whole["trace"]["spans"]) == whole["spans"] == each["spans"]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_what_was_asked_is_the_users_question_and_not_what_a_tool_was_given(
    server: Server, together: bool, settled: bool
) -> None:
    asked = json.dumps([{"role": "user", "content": "Refund order 17"}])
    spans = [
        tool_call(3, None, gen_ai__tool__call__arguments='{"order":17}'),
        model_call(4, None, start=START + 1, gen_ai__input__messages=asked),
    ]
    for body in [spans] if together else [[each] for each in spans]:
        assert send(server, as_protobuf(*body)).status_code == 200
    if settled:
        server.service.app.store.traces.finalise(time.time() + 1000)
    (listed,) = server.v1("victor", "GET", "/traces").json()["items"]
    assert (listed["asked"], listed["tools"]) == ("Refund order 17", ["search"])
    shown = server.v1("victor", "GET", f"/traces/{listed['id']}").json()["trace"]
    assert shown["asked"] == "Refund order 17"


@pytest.mark.parametrize(
    ("packed", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress), ("identity", bytes)]
)
def test_a_body_may_be_packed(shared: Server, packed: str, pack: Callable[[bytes], bytes]) -> None:
    body = pack(as_protobuf(span(77)))
    assert send(shared, body, **{"Content-Encoding": packed}).status_code == 200


@pytest.mark.parametrize(("packed", "pack"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_a_few_bytes_that_unpack_to_very_many_are_refused(
    shared: Server, packed: str, pack: Callable[[bytes], bytes]
) -> None:
    answered = send(shared, pack(bytes(70_000_000)), **{"Content-Encoding": packed})
    assert answered.status_code == 413
    assert answered.headers["content-type"] == "application/x-protobuf"
    assert b"64,000,000 bytes" in answered.content


def test_partial_success_says_how_many_were_refused_and_why(shared: Server) -> None:
    wrong = json.loads(as_json(span(78), span(78, number=2)))
    wrong["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["spanId"] = "short"
    told = send(shared, json.dumps(wrong).encode(), **JSON).json()["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert "spanId must be 16 hex digits" in told["errorMessage"]
    zero = trace_service_pb2.ExportTraceServiceRequest.FromString(as_protobuf(span(78)))
    zero.resource_spans[0].scope_spans[0].spans[0].span_id = bytes(8)
    answer = read_answer(send(shared, zero.SerializeToString()).content)
    assert answer.partial_success.rejected_spans == 1


def test_what_was_cut_is_a_warning_and_a_fact_of_the_trace(shared: Server) -> None:
    body = as_protobuf(span(79, text="x" * 2_000_000))
    answer = read_answer(send(shared, body).content)
    assert answer.partial_success.rejected_spans == 0
    assert "cut to fit" in answer.partial_success.error_message
    found = shared.v1("victor", "GET", f"/traces/{79:032x}").json()["trace"]
    assert found["lost"]["spans_cut"] == 1


@pytest.mark.parametrize(
    ("who", "headers", "body", "status", "code"),
    [
        ("nobody", PROTOBUF, b"", 401, 16),
        ("unknown", PROTOBUF, b"", 401, 16),
        ("victor", PROTOBUF, b"", 403, 7),
        ("rita", PROTOBUF, b"\xff\xff", 400, 3),
        ("rita", JSON, b"{", 400, 3),
        ("rita", JSON, b"\xff\xfe", 400, 3),
        ("rita", {"Content-Type": "text/plain"}, b"x", 415, 3),
    ],
)
def test_errors_are_a_status_in_the_encoding_of_the_request(
    shared: Server, who: str, headers: dict[str, str], body: bytes, status: int, code: int
) -> None:
    answered = send(shared, body, who, **headers)
    assert answered.status_code == status
    if headers is PROTOBUF:
        assert answered.headers["content-type"] == "application/x-protobuf"
        assert answered.content[:2] == bytes([8, code])
    else:
        assert answered.headers["content-type"] == "application/json"
        assert answered.json()["code"] == code
        assert answered.json()["message"]


def test_where_there_is_no_room_the_sender_is_asked_to_come_again(server: Server) -> None:
    server.service.memory.hold("others", 499_000_000)
    server.service.memory.hold("more", 499_000_000)
    answered = send(server, as_protobuf(span(text="x" * 1_500_000)))
    assert (answered.status_code, answered.headers["retry-after"]) == (503, "1")
    assert answered.content[:2] == bytes([8, 14])


def test_redaction_comes_before_the_store(server: Server) -> None:
    rules = {"redact_attributes": ["user.*"], "redact_patterns": ["Par[a-z]+"]}
    assert server.v1("alice", "PATCH", "/traces/settings", json=rules).status_code == 200
    server.service.accounts._seen.forget_all()
    send(server, as_protobuf(span(user__id="ann", text="to Paris"), model_call()))
    found = server.v1("victor", "GET", f"/traces/{1:032x}")
    assert "ann" not in found.text
    assert "Paris" not in found.text
    assert found.json()["trace"]["user"] == "[redacted]"


def test_limits_can_be_read_before_they_are_hit(shared: Server) -> None:
    told = shared.v1("nobody", "GET", "/limits").json()["traces"]
    assert told["spans_per_trace"] == 20_000
    assert told["bytes_per_request"] == 64_000_000


def test_nobody_sends_into_another_tenant(shared: Server) -> None:
    assert send(shared, as_protobuf(span(80)), "otto").status_code == 200
    assert shared.v1("otto", "GET", f"/traces/{80:032x}").status_code == 200
    assert shared.v1("ada", "GET", f"/traces/{80:032x}").status_code == 404
