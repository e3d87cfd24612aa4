"""Spans become a trace in which nothing is counted twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.traces import Trace
from tallymark.traces.otel_spans import OtelSpan
from tallymark.traces.otel_traces import assemble

CHAT = {"gen_ai.operation.name": "chat"}
AGENT = {"gen_ai.operation.name": "invoke_agent"}
EMBEDDING = {"gen_ai.operation.name": "embeddings"}
USED = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 1, "operation.cost": 0.5}


def tool(name: str) -> dict[str, Any]:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}


def built(*spans: tuple[str, str | None, dict[str, Any]]) -> Trace:
    return assemble(
        OtelSpan("t", span_id, parent, name=span_id, start_ns=i + 1, end_ns=100, attributes=attrs)
        for i, (span_id, parent, attrs) in enumerate(spans)
    )


def test_spans_stand_in_the_order_they_began_parents_first() -> None:
    child = OtelSpan("t", "b", "a", start_ns=5, end_ns=6)
    parent = OtelSpan("t", "a", start_ns=5, end_ns=9, name="root")
    late = OtelSpan("t", "c", "a", start_ns=7, end_ns=8)
    trace = assemble([late, child, parent], {"service.name": "desk"})
    assert [span.span_id for span in trace.spans] == ["a", "b", "c"]
    assert (trace.name, trace.duration_ms) == ("root", 4e-6)
    assert trace.metadata == {"resource": {"service.name": "desk"}}


def test_a_span_without_a_start_does_not_stretch_the_trace() -> None:
    spans = [OtelSpan("t", "a", start_ns=5_000_000, end_ns=9_000_000), OtelSpan("t", "b", "a")]
    assert assemble(spans).duration_ms == 4.0


@pytest.mark.parametrize(("failed", "status"), [("a", "error"), ("b", "ok")])
def test_a_trace_failed_when_its_root_did(failed: str, status: str) -> None:
    spans = [
        OtelSpan("t", "a", failed=failed == "a"),
        OtelSpan("t", "b", "a", failed=failed == "b"),
    ]
    assert assemble(spans).status == status


def test_no_spans_are_an_empty_trace() -> None:
    assert assemble([]) == Trace()


@pytest.mark.parametrize(
    ("spans", "tokens"),
    [
        ([("a", None, AGENT | USED), ("g", "a", CHAT | USED)], 11),
        ([("a", None, AGENT | USED), ("g", None, CHAT | USED)], 11),
        ([("a", None, AGENT | USED), ("b", "a", AGENT | USED), ("g", "b", CHAT)], 11),
        ([("a", None, AGENT | USED), ("b", None, AGENT | USED)], 22),
        ([("g", None, CHAT | USED), ("inner", "g", CHAT | USED)], 11),
        ([("g", None, CHAT | USED), ("h", None, CHAT | USED)], 22),
        ([("g", None, CHAT | USED), ("e", None, EMBEDDING | USED)], 22),
        ([("a", "b", AGENT | USED), ("b", "a", AGENT | USED)], None),
        ([("a", None, AGENT)], None),
    ],
    ids=[
        "an agent repeats its call", "an agent without a link to it", "agents only: the outermost",
        "two agents side by side", "one call reported twice", "two calls",
        "a call and an embedding", "a circle", "nobody knows",
    ],
)  # fmt: skip
def test_usage_is_counted_once(
    spans: list[tuple[str, str | None, dict[str, Any]]], tokens: int | None
) -> None:
    trace = built(*spans)
    assert trace.tokens == tokens
    assert trace.cost == (None if tokens is None else 0.5 * tokens / 11)


def test_a_call_inside_the_same_call_is_one() -> None:
    trace = built(
        ("g", None, CHAT), ("http", "g", {}), ("inner", "g", CHAT),
        ("x", None, tool("add")), ("mcp", "x", tool("add")), ("other", "x", tool("sub")),
        ("nested", "other", CHAT),
    )  # fmt: skip
    assert [span.span_id for span in trace.generations] == ["g", "nested"]
    assert [span.span_id for span in trace.tool_calls] == ["x", "other"]


SAID = {"gen_ai.completion": "Paris", "gen_ai.request.model": "gpt-4o-mini"}


@pytest.mark.parametrize(
    "spans",
    [
        [("o", None, CHAT), ("i", "o", CHAT | SAID | USED)],
        [("o", None, CHAT | SAID), ("i", "o", CHAT | USED)],
        [("o", None, CHAT | USED), ("i", "o", CHAT | SAID)],
        [("o", None, CHAT), ("m", "o", CHAT | USED), ("i", "m", CHAT | SAID)],
    ],
)
def test_the_outer_of_two_calls_has_what_only_the_inner_one_knows(spans: Any) -> None:
    trace = built(*spans)
    (call,) = trace.generations
    assert (call.span_id, call.output, call.model) == ("o", "Paris", "gpt-4o-mini")
    assert (trace.tokens, trace.cost) == (11, 0.5)


def test_what_is_priced_by_the_inner_call_is_priced() -> None:
    used = {"gen_ai.usage.input_tokens": 10**6, "gen_ai.usage.output_tokens": 0}
    (call,) = built(("o", None, CHAT), ("i", "o", CHAT | SAID | used)).generations
    assert call.cost == pytest.approx(0.15)


def test_a_tool_reported_twice_has_the_arguments_of_either() -> None:
    given = {"gen_ai.tool.call.arguments": '{"q": 1}', "gen_ai.tool.call.result": "hit"}
    (call,) = built(("o", None, tool("a")), ("i", "o", tool("a") | given)).tool_calls
    assert (call.span_id, call.tool_input, call.tool_output) == ("o", '{"q": 1}', "hit")


def test_a_call_that_holds_several_is_a_step() -> None:
    trace = built(("o", None, CHAT | USED), ("a", "o", CHAT | USED), ("b", "o", CHAT | SAID | USED))
    assert [call.span_id for call in trace.generations] == ["a", "b"]
    assert (trace.tokens, trace.answer) == (22, "Paris")


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        (USED, None),
        ({"gen_ai.input.messages": '[{"role": "user", "content": "hi"}]'}, None),
        ({"gen_ai.completion": ""}, ""),
        ({"gen_ai.output.messages": '[{"role": "assistant", "content": ""}]'}, ""),
        (SAID, "Paris"),
    ],
)
def test_an_answer_that_was_not_recorded_is_not_empty(
    attributes: dict[str, Any], answer: str | None
) -> None:
    assert built(("g", None, CHAT | attributes)).answer == answer


def test_a_call_that_failed_has_no_answer_and_that_is_known() -> None:
    assert assemble([OtelSpan("t", "g", failed=True, attributes=CHAT)]).answer == ""


def test_a_pending_span_is_not_a_span() -> None:
    trace = built(("a", None, {}), ("b", "a", {"logfire.span_type": "pending_span"}))
    assert [span.span_id for span in trace.spans] == ["a"]


@pytest.mark.parametrize(
    ("model", "cost"), [("gpt-4o-mini", 0.75), ("nobody/knows", None), (None, None)]
)
def test_a_missing_cost_comes_from_the_price_table(model: str | None, cost: float | None) -> None:
    used = {"gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 1_000_000}
    named = {"gen_ai.request.model": model} if model else {}
    assert built(("g", None, CHAT | used | named)).cost == pytest.approx(cost)


def asks(*names: str) -> dict[str, Any]:
    parts = [{"type": "tool_call", "id": f"c-{n}", "name": n, "arguments": {"n": n}} for n in names]
    return CHAT | {"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])}


def hears(**answers: str) -> dict[str, Any]:
    told = [{"role": "user", "content": "go"}]
    told += [{"role": "tool", "tool_call_id": f"c-{n}", "content": a} for n, a in answers.items()]
    return CHAT | {"gen_ai.input.messages": json.dumps(told)}


def test_wishes_for_tools_stand_in_for_tool_spans_that_are_missing() -> None:
    trace = built(
        ("root", None, {}), ("g1", "root", asks("add", "sub")), ("g2", "root", hears(add="5"))
    )
    assert [span.span_id for span in trace.spans] == ["root", "g1", "g1/tool-1", "g1/tool-2", "g2"]
    add, sub = trace.tool_calls
    assert (add.tool_name, add.tool_input, add.tool_output) == ("add", '{"n":"add"}', "5")
    assert (sub.tool_name, sub.tool_output, sub.parent_id) == ("sub", None, "root")


def test_wishes_are_not_counted_beside_the_tools_own_spans() -> None:
    trace = built(("g1", None, asks("add")), ("x", None, tool("add")), ("g2", None, hears(add="5")))
    assert [span.span_id for span in trace.tool_calls] == ["x"]


def test_a_wish_that_an_agent_or_a_doubled_call_repeats_is_one() -> None:
    trace = built(
        ("a", None, asks("add") | AGENT), ("g", "a", asks("add")), ("inner", "g", asks("add"))
    )
    assert [span.span_id for span in trace.tool_calls] == ["g/tool-1"]


def test_structured_output_is_not_a_tool() -> None:
    parameters = json.dumps({"output_tools": [{"name": "final_result"}]})
    asked = asks("final_result") | {"model_request_parameters": parameters}
    assert built(("g", None, asked)).tool_calls == []


@pytest.mark.parametrize(
    "definitions",
    [
        {"gen_ai.tool.definitions": '[{"type":"function","name":"add"}]'},
        {"llm.tools.0.tool.json_schema": '{"name":"add"}'},
        {"llm.request.functions.0.name": "add"},
        {"request_data": '{"messages":[],"tools":[{"type":"function","function":{"name":"add"}}]}'},
        {"model_request_parameters": '{"function_tools":[{"name":"add"}]}'},
    ],
)
def test_definitions_of_tools_are_not_calls(definitions: dict[str, Any]) -> None:
    assert built(("g", None, CHAT | definitions)).tool_names == []


def test_the_way_up_to_the_root_is_gone_once_however_many_come_from_below() -> None:
    """What would be a hundred million steps, were it gone for each."""
    used = {"gen_ai.usage.input_tokens": 1}
    chain = [OtelSpan("t", f"c{n}", f"c{n - 1}" if n else None) for n in range(10_000)]
    leaves = [OtelSpan("t", f"l{n}", "c9999", attributes=used) for n in range(10_000)]
    assert assemble([*chain, *leaves]).input_tokens == 10_000
