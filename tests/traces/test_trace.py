"""The questions that scorers ask of a trace."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tallymark.errors import InvalidInput, TraceError
from tallymark.traces import Span, Trace

EMPTY = Trace()
RUN = Trace(
    trace_id="t",
    spans=[
        Span(span_id="a", name="agent"),
        Span(span_id="g1", parent_id="a", span_type="generation", input="Hi", output="Let me see.",
             input_tokens=10, output_tokens=2, cost=0.5),
        Span(span_id="x1", parent_id="g1", span_type="tool", name="run", tool_name="search",
             error="no network"),
        Span(span_id="x2", parent_id="a", span_type="tool", name="search", status="error"),
        Span(span_id="r", parent_id="gone", span_type="retrieval"),
        Span(span_id="g2", parent_id="a", span_type="generation", output="Done.", input_tokens=5),
        Span(span_id="e", parent_id="a", span_type="event"),
    ],
)  # fmt: skip


def ids(spans: list[Span]) -> list[str]:
    return [span.span_id for span in spans]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("generations", ["g1", "g2"]),
        ("tool_calls", ["x1", "x2"]),
        ("errors", ["x1", "x2"]),
        ("roots", ["a", "r"]),
    ],
)
def test_spans_are_found_in_order(question: str, answer: list[str]) -> None:
    assert ids(getattr(RUN, question)) == answer


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("tool_names", ["search", "search"]),
        ("first_input", "Hi"),
        ("last_output", "Done."),
        ("input_tokens", 15),
        ("output_tokens", 2),
        ("tokens", 17),
        ("cost", 0.5),
        ("failed", False),
    ],
)
def test_a_trace_sums_up_its_spans(question: str, answer: object) -> None:
    assert getattr(RUN, question) == answer


def test_the_cost_of_spans_adds_up_exactly() -> None:
    assert Trace(spans=[Span(cost=0.1)] * 3).cost == 0.3


@pytest.mark.parametrize("question", ["input_tokens", "output_tokens", "tokens", "cost"])
def test_a_total_that_no_span_knows_is_unknown_not_zero(question: str) -> None:
    assert getattr(EMPTY, question) is None
    assert getattr(Trace(spans=[Span(), Span()]), question) is None


@pytest.mark.parametrize("question", ["generations", "tool_calls", "errors", "roots", "tool_names"])
def test_an_empty_trace_has_none_of_anything(question: str) -> None:
    assert getattr(EMPTY, question) == []


def test_an_empty_trace_asked_and_answered_nothing() -> None:
    assert (EMPTY.first_input, EMPTY.last_output, list(EMPTY.walk())) == ("", "", [])


def test_last_output_is_of_the_last_generation_even_when_it_is_empty() -> None:
    spans = [Span(span_type="generation", output="x"), Span(span_type="generation")]
    assert Trace(spans=spans).last_output == ""


UNSEEN = Span(span_type="generation", output_seen=False)
SAID = Span(span_id="g", parent_id="a", span_type="generation", output="said")


@pytest.mark.parametrize(
    ("spans", "answer"),
    [
        ([], None),
        ([Span(name="step")], None),
        ([Span(span_type="tool", output="sunny"), Span(span_type="event", output="x")], None),
        ([UNSEEN], None),
        ([SAID, UNSEEN], None),
        ([Span(span_type="generation")], ""),
        ([Span(span_id="a", output="told"), SAID], "said"),
        ([Span(span_id="a", output="told", output_is_answer=True), SAID], "told"),
        ([Span(span_id="a", output_is_answer=True), SAID], ""),
        ([Span(span_id="a", output="told"), replace(SAID, output="")], "told"),
        ([Span(span_id="a", output="told"), UNSEEN], "told"),
        # Around the agent a web server, which has no output; inside it, parts of the answer.
        (
            [
                Span(span_id="http"),
                Span(span_id="a", parent_id="http", output="told"),
                Span(span_id="step", parent_id="a", output="a part"),
            ],
            "told",
        ),
    ],
)
def test_an_answer_is_none_when_none_was_seen(spans: list[Span], answer: str | None) -> None:
    assert Trace(spans=spans).answer == answer
    assert Trace(spans=spans).last_output == (answer or "")


def test_children_are_found_without_looking_at_every_span() -> None:
    spans = [Span(span_id=str(n), parent_id=str(n // 2)) for n in range(1, 100)]
    trace = Trace(spans=spans)
    assert [child.span_id for child in trace.children(spans[4])] == ["10", "11"]
    with patch.object(Trace, "spans", property(lambda _: pytest.fail("all spans looked at again"))):
        assert [child.span_id for child in trace.children(spans[5])] == ["12", "13"]


@pytest.mark.parametrize(
    ("span", "failed"),
    [(Span(), False), (Span(status="error"), True), (Span(error="boom"), True)],
)
def test_a_span_failed_by_its_status_or_its_error(span: Span, failed: bool) -> None:
    assert span.failed is failed


@pytest.mark.parametrize(
    ("given_tokens", "total"), [((1, 2), 3), ((1, None), 1), ((None, None), None), ((0, None), 0)]
)
def test_a_spans_tokens(given_tokens: tuple[int | None, int | None], total: int | None) -> None:
    assert Span(input_tokens=given_tokens[0], output_tokens=given_tokens[1]).tokens == total


def test_children_are_the_spans_directly_below() -> None:
    assert ids(RUN.children(RUN.spans[0])) == ["g1", "x2", "g2", "e"]


def test_only_a_span_has_children() -> None:
    with pytest.raises(InvalidInput, match="takes a Span of the trace, not str"):
        RUN.children("a")  # type: ignore[arg-type]


def test_a_walk_goes_down_before_it_goes_on() -> None:
    walked = [(depth, span.span_id) for depth, span in RUN.walk()]
    expected = [(0, "a"), (1, "g1"), (2, "x1"), (1, "x2"), (1, "g2"), (1, "e"), (0, "r")]
    assert walked == expected


@pytest.mark.parametrize(
    "parents",
    [
        {"a": "b", "b": "a"},
        {"a": "a"},
        {"a": "b", "b": "c", "c": "a", "d": "c"},
    ],
)
def test_a_walk_reaches_every_span_of_a_circle_once(parents: dict[str, str]) -> None:
    trace = Trace(spans=[Span(span_id=key, parent_id=value) for key, value in parents.items()])
    assert sorted(span.span_id for _, span in trace.walk()) == sorted(parents)


def test_an_empty_parent_is_none() -> None:
    assert len(Trace(spans=[Span(parent_id=""), Span()]).roots) == 2


def test_a_walk_reaches_spans_without_ids_and_with_the_same_id() -> None:
    trace = Trace(spans=[Span(), Span(), Span(span_id="a"), Span(span_id="a")])
    assert len(list(trace.walk())) == 4


def test_a_long_chain_is_walked_without_recursion() -> None:
    spans = [Span(span_id=str(i), parent_id=str(i - 1)) for i in range(5000)]
    assert max(depth for depth, _ in Trace(spans=spans).walk()) == 4999


def test_to_dict_leaves_defaults_out() -> None:
    assert EMPTY.to_dict() == {}
    assert Trace(trace_id="t", spans=[Span(name="x")]).to_dict() == {
        "trace_id": "t",
        "spans": [{"name": "x"}],
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.nan, None),
        (math.inf, None),
        ({1: [math.nan]}, {"1": [None]}),
        (date(2026, 1, 5), "2026-01-05"),
        (3 + 0j, "(3+0j)"),
    ],
)
def test_to_dict_is_ready_for_json(value: Any, written: Any) -> None:
    plain = Trace(metadata={"it": value}).to_dict()
    assert plain == {"metadata": {"it": written}}
    json.dumps(plain, allow_nan=False)


def test_to_dict_has_no_nan_in_numbers_of_its_own() -> None:
    assert Trace(duration_ms=math.nan).to_dict() == {"duration_ms": None}


def test_what_is_nested_too_deeply_to_write_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TraceError, match="nested too deeply to write"):
        Trace(metadata={"it": endless}).to_dict()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe_text = st.none() | texts
amounts = st.floats(0, allow_nan=False, allow_infinity=False)
counts = st.none() | st.integers(0, 2**53)
plain_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | amounts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
metadata = st.dictionaries(texts, plain_data, max_size=3)
spans = st.builds(
    Span,
    span_id=texts,
    name=texts,
    span_type=st.sampled_from(["span", "generation", "tool", "retrieval", "event"]),
    parent_id=st.none() | texts.filter(bool),
    input=texts,
    output=texts,
    tool_name=maybe_text,
    tool_input=maybe_text,
    tool_output=maybe_text,
    model=maybe_text,
    start_ms=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    duration_ms=amounts,
    status=st.sampled_from(["ok", "error"]),
    error=maybe_text,
    input_tokens=counts,
    output_tokens=counts,
    cost=st.none() | amounts,
    metadata=metadata,
)
traces = st.builds(
    Trace,
    trace_id=texts,
    name=texts,
    status=st.sampled_from(["ok", "error"]),
    duration_ms=amounts,
    metadata=metadata,
    spans=st.lists(spans, max_size=3),
)


@given(traces)
def test_a_trace_survives_being_written_and_read(trace: Trace) -> None:
    assert Trace.from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


@given(traces)
def test_a_walk_reaches_every_span_of_any_trace_once(trace: Trace) -> None:
    assert sorted(id(span) for _, span in trace.walk()) == sorted(map(id, trace.spans))


@pytest.mark.parametrize("order", ["rtci", "ictr", "tcir", "crit"])
def test_what_a_tool_does_is_no_question_in_whatever_order_spans_come(order: str) -> None:
    spans = {
        "r": Span(span_id="r", name="agent", input="Q"),
        "t": Span(span_id="t", parent_id="r", span_type="tool", input="ARGS"),
        "c": Span(span_id="c", parent_id="t", name="inner", input="ARGS"),
        "i": Span(span_id="i", parent_id="c", name="innermost", input="ARGS"),
    }
    assert Trace(spans=[spans[each] for each in order]).first_input == "Q"
