"""Plain mappings to traces: spellings, shapes, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallymark.errors import Place, TraceError
from tallymark.traces import Span, Trace

SNAKE: dict[str, Any] = {
    "trace_id": "t",
    "name": "run",
    "status": "error",
    "duration_ms": 5,
    "metadata": {"k": 1},
    "spans": [
        {
            "span_id": "s",
            "name": "call",
            "span_type": "tool",
            "parent_id": "p",
            "input": "i",
            "output": "o",
            "tool_name": "search",
            "tool_input": "{}",
            "tool_output": "[]",
            "model": "m",
            "start_ms": 1.5,
            "duration_ms": 2,
            "status": "error",
            "error": "boom",
            "input_tokens": 3,
            "output_tokens": 4,
            "cost": 0.1,
            "metadata": {"a": "b"},
        }
    ],
}
EXPECTED = Trace(
    trace_id="t", name="run", status="error", duration_ms=5.0, metadata={"k": 1},
    spans=[Span(
        span_id="s", name="call", span_type="tool", parent_id="p", input="i", output="o",
        tool_name="search", tool_input="{}", tool_output="[]", model="m", start_ms=1.5,
        duration_ms=2.0, status="error", error="boom", input_tokens=3, output_tokens=4, cost=0.1,
        metadata={"a": "b"},
    )],
)  # fmt: skip

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def camel(value: Any) -> Any:
    """The same data in JavaScript's spelling."""

    def spelled(key: str) -> str:
        first, *rest = key.split("_")
        return first + "".join(part.capitalize() for part in rest)

    if isinstance(value, dict):
        return {spelled(key): camel(each) for key, each in value.items()}
    return [camel(each) for each in value] if isinstance(value, list) else value


def nested(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace": {key: value for key, value in data.items() if key != "spans"},
        "spans": data["spans"],
    }


@pytest.mark.parametrize(
    "data",
    [SNAKE, camel(SNAKE), nested(SNAKE), nested(camel(SNAKE)), {"trace": nested(camel(SNAKE))}],
    ids=["snake", "camel", "nested snake", "nested camel", "a whole context"],
)
def test_every_shape_gives_the_same_trace(data: dict[str, Any]) -> None:
    assert Trace.from_dict(data) == EXPECTED


@pytest.mark.parametrize("key", ["parent_id", "parentId", "parent_span_id", "parentSpanId"])
def test_a_parent_has_four_names(key: str) -> None:
    assert Trace.from_dict({"spans": [{key: "p"}]}).spans[0].parent_id == "p"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ({"query": "x", "n": [1, None]}, '{"query":"x","n":[1,null]}'),
        ([1, 2], "[1,2]"),
        (12, "12"),
        (True, "true"),
    ],
)
@pytest.mark.parametrize("key", ["input", "output"])
def test_input_and_output_that_are_not_text_become_compact_json(
    key: str, value: Any, text: str
) -> None:
    assert getattr(Trace.from_dict({"spans": [{key: value}]}).spans[0], key) == text


def test_null_is_the_default_of_every_key() -> None:
    assert Trace.from_dict({"spans": [dict.fromkeys(SNAKE["spans"][0])]}) == Trace(spans=[Span()])
    assert Trace.from_dict(dict.fromkeys(SNAKE)) == Trace()


def test_numbers_serve_as_ids() -> None:
    trace = Trace.from_dict({"trace_id": 17, "spans": [{"span_id": 1}]})
    assert (trace.trace_id, trace.spans[0].span_id) == ("17", "1")


def test_large_counts_are_exact() -> None:
    assert Trace.from_dict({"spans": [{"inputTokens": 2**60 + 1}]}).tokens == 2**60 + 1


def test_unknown_keys_go_to_metadata_and_do_not_replace_what_is_there() -> None:
    trace = Trace.from_dict(
        {"trace_id": "t", "expected": {"output": "x"}, "team": "north",
         "metadata": {"team": "south"}, "spans": [{"vendor.key": 1}]}
    )  # fmt: skip
    assert trace.metadata == {"expected": {"output": "x"}, "team": "south"}
    assert trace.spans[0].metadata == {"vendor.key": 1}


def test_metadata_of_trace_and_context_are_joined() -> None:
    data = {"trace": {"metadata": {"a": 1}}, "spans": [], "metadata": {"a": 2, "b": 3}}
    assert Trace.from_dict(data).metadata == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a trace must be an object, not a list"),
        ("x", "a trace must be an object, not 'x'"),
        ({"trace": 3}, "trace must be an object, not 3"),
        ({"spans": {"a": 1}}, "spans must be a list, not an object"),
        ({"spans": "abc"}, "spans must be a list, not 'abc'"),
        ({"spans": [{}, 7]}, "spans[1] must be an object, not 7"),
        ({"traceId": ["x"]}, "traceId must be a string, not a list"),
        ({"name": True}, "name must be a string, not True"),
        ({"status": "done"}, "status must be one of 'ok', 'error', not 'done'"),
        ({"status": []}, "status must be one of 'ok', 'error', not a list"),
        ({"duration_ms": "5"}, "duration_ms must be a finite number of at least 0, not '5'"),
        ({"duration_ms": math.nan}, "duration_ms must be a finite number of at least 0, not nan"),
        ({"duration_ms": math.inf}, "duration_ms must be a finite number of at least 0, not inf"),
        ({"durationMs": -1}, "durationMs must be a finite number of at least 0, not -1"),
        ({"duration_ms": 10**400}, "duration_ms must be a finite number of at least 0, not 1000"),
        ({"metadata": []}, "metadata must be an object, not a list"),
        ({"spans": [{"spanType": "llm"}]}, "spans[0].spanType must be one of 'span', 'generation'"),
        ({"spans": [{}, {"durationMs": "x"}]}, "spans[1].durationMs must be a finite number"),
        ({"spans": [{"inputTokens": 1.5}]}, "spans[0].inputTokens must be a whole number"),
        ({"spans": [{"output_tokens": True}]}, "spans[0].output_tokens must be a whole number"),
        ({"spans": [{"cost": -0.1}]}, "spans[0].cost must be a finite number of at least 0"),
        ({"spans": [{"start_ms": math.nan}]}, "spans[0].start_ms must be a finite number, not nan"),
        ({"spans": [{"model": {"id": 1}}]}, "spans[0].model must be a string, not an object"),
        ({"spans": [{"input": ENDLESS}]}, "spans[0].input must be text, or what can be written"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(data: Any, message: str) -> None:
    with pytest.raises(TraceError) as refused:
        Trace.from_dict(data)
    assert str(refused.value).startswith(message)


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(TraceError, match=r"^run\.jsonl:3: spans\[0\]\.cost must be"):
        Trace.from_dict({"spans": [{"cost": "free"}]}, place=Place("run.jsonl", 3))
