from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallymark.errors import InvalidInput, NotMeasured, ScorerError
from tallymark.scoring import Config, EvalContext, Expected
from tallymark.scoring.eval_context import copy_plain, freeze
from tallymark.traces import Span, Trace

DOCUMENT: dict[str, Any] = {
    "trace": {
        "trace": {
            "traceId": "test-trace",
            "name": "test",
            "status": "ok",
            "durationMs": 1000,
            "metadata": {"user": "alice"},
        },
        "spans": [
            {
                "spanId": "test-span",
                "name": "generation",
                "spanType": "generation",
                "input": "test input",
                "output": "Hello world",
                "durationMs": 1000,
            }
        ],
    },
    "expected": {"output": "Hello", "outputContains": ["world"], "toolCalls": ["search"]},
    "metadata": {"topic": "greeting"},
    "config": {"timeout": 30, "threshold": 0.8},
}
SNAKE: dict[str, Any] = {
    "trace": {
        "trace_id": "test-trace",
        "name": "test",
        "status": "ok",
        "duration_ms": 1000,
        "metadata": {"user": "alice"},
        "spans": [
            {
                "span_id": "test-span",
                "name": "generation",
                "span_type": "generation",
                "input": "test input",
                "output": "Hello world",
                "duration_ms": 1000,
            }
        ],
    },
    "expected": {"output": "Hello", "output_contains": ["world"], "tool_calls": ["search"]},
    "metadata": {"topic": "greeting"},
    "config": {"timeout": 30, "threshold": 0.8},
}


@pytest.mark.parametrize("given", [DOCUMENT, SNAKE], ids=["camelCase", "snake_case"])
def test_the_documents_shape_is_read(given: dict[str, Any]) -> None:
    ctx = EvalContext.from_dict(given)
    assert ctx.trace.trace_id == "test-trace"
    assert ctx.trace.metadata == {"user": "alice"}
    assert (ctx.input, ctx.output) == ("test input", "Hello world")
    assert ctx.spans is ctx.trace.spans
    assert ctx.expected == Expected(
        output="Hello", output_contains=["world"], tool_calls=["search"]
    )
    assert ctx.metadata == {"topic": "greeting"}
    assert ctx.config == Config(timeout=30.0, threshold=0.8)


def test_a_trace_may_be_given_as_one() -> None:
    trace = Trace(trace_id="t")
    assert EvalContext.from_dict({"trace": trace}).trace is trace


def test_what_is_missing_is_none_and_never_an_attribute_error() -> None:
    ctx = EvalContext(Trace())
    assert (ctx.input, ctx.spans, ctx.metadata) == ("", [], {})
    with pytest.raises(NotMeasured, match="no answer was seen"):
        assert ctx.output
    assert ctx.expected.output is None
    assert ctx.expected.output_contains is None
    assert ctx.expected.tool_calls is None
    assert ctx.expected.tool_names is None
    assert ctx.config.timeout is None


def test_a_call_that_was_not_recorded_is_not_called_missing() -> None:
    ctx = EvalContext(Trace(spans=[Span(span_type="generation", output_seen=False)]))
    with pytest.raises(NotMeasured, match="does not record the output of its model calls"):
        assert ctx.output


def test_other_keys_of_expected_and_config_are_kept_as_written() -> None:
    ctx = EvalContext.from_dict(
        {
            "trace": Trace(),
            "expected": {"output": "x", "minWords": 3, "extra": 1},
            "config": {"seed": 7},
        }
    )
    assert ctx.expected.extra == {"minWords": 3, "extra": 1}
    assert (ctx.expected["minWords"], ctx.expected["output"]) == (3, "x")
    assert ctx.expected.get("absent", "other") == "other"
    assert ("minWords" in ctx.expected, "tool_calls" in ctx.expected) == (True, False)
    assert ctx.config["seed"] == 7
    with pytest.raises(KeyError, match="absent"):
        ctx.expected["absent"]


def test_an_expected_tool_may_come_with_arguments() -> None:
    given = {"toolCalls": ["search", {"name": "book", "arguments": {"seat": "4A"}}]}
    assert Expected.from_dict(given, "expected").tool_names == ["search", "book"]


def test_the_input_is_the_first_that_a_span_has() -> None:
    spans = [Span(name="root"), Span(input="first"), Span(input="second")]
    assert EvalContext(Trace(spans=spans)).input == "first"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "context must be a mapping, not list"),
        ({}, "context: the key 'trace' is missing"),
        ({"trace": Trace(), "expcted": {}}, "unknown key 'expcted'; did you mean 'expected'?"),
        ({"trace": Trace(), "zzz": 1}, "the keys are trace, expected, metadata, config"),
        (
            {"trace": Trace(), "expected": {"outputContains": "x"}},
            "expected: Expected `array | null`, got `str` - at `output_contains`",
        ),
        ({"trace": Trace(), "expected": {"toolCalls": [{"nam": "x"}]}}, "has no key 'name'"),
        ({"trace": Trace(), "config": {"timeout": "soon"}}, "config: Expected `float | null`"),
        ({"trace": Trace(), "metadata": 3}, "metadata must be a mapping, not int"),
    ],
)
def test_what_cannot_be_read_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        EvalContext.from_dict(given)
    assert message in str(caught.value)


PLAIN: dict[str, Any] = {"a": [1, {"b": "c"}], "d": {}, "e": None}


def test_a_copy_shares_nothing_that_can_be_changed() -> None:
    copied = copy_plain(PLAIN)
    copied["a"][1]["b"] = "changed"
    assert PLAIN["a"] == [1, {"b": "c"}]


def test_what_is_not_plain_or_too_deep_is_shared() -> None:
    client = object()
    assert copy_plain({"client": client})["client"] is client
    deep: list[Any] = []
    deep.append(deep)
    assert copy_plain(deep) is deep
    assert freeze(deep) is deep


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(x=1),
        lambda data: data.pop("a"),
        lambda data: data.clear(),
        lambda data: data.setdefault("x", 1),
        lambda data: data.__setitem__("x", 1),
        lambda data: data.__delitem__("a"),
        lambda data: data.__ior__({"x": 1}),
        lambda data: data["a"].append(1),
        lambda data: data["a"].sort(),
        lambda data: data["a"].__iadd__([1]),
        lambda data: data["a"].__setitem__(0, 2),
        lambda data: data["a"][1].popitem(),
        lambda data: data["d"].update(x=1),
    ],
)
def test_what_is_frozen_says_that_it_cannot_be_changed(change: Callable[[Any], Any]) -> None:
    frozen = freeze(PLAIN)
    with pytest.raises(ScorerError, match="what a scorer sees cannot be changed"):
        change(frozen)
    assert frozen == PLAIN


def test_what_is_frozen_is_read_and_written_like_any_data() -> None:
    frozen = freeze(PLAIN)
    assert json.loads(json.dumps(frozen)) == PLAIN
    assert msgspec.json.decode(msgspec.json.encode(frozen)) == PLAIN
    for made in (copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen)), dict(frozen)):
        made["x"] = 1
        assert made == {**PLAIN, "x": 1}
    thawed = copy.deepcopy(frozen)
    thawed["a"][1]["b"] = "changed"
    assert frozen == PLAIN
