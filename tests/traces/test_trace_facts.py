"""What is known of a whole trace without its spans."""

from __future__ import annotations

import pytest

from tallymark.traces import Span, Trace
from tallymark.traces.trace_facts import TraceFacts, combine_facts, read_facts


def make(**fields: object) -> Trace:
    return Trace(trace_id="t", name="desk", **fields)  # type: ignore[arg-type]


def test_what_is_filtered_and_summed_comes_from_the_spans() -> None:
    root = Span(span_id="1", name="desk", input="How warm?", start_ms=1e12, duration_ms=2000)
    call = Span(
        span_id="2",
        parent_id="1",
        span_type="generation",
        model="m",
        output="12",
        start_ms=1e12 + 500,
        duration_ms=500,
        input_tokens=3,
        output_tokens=4,
        cost=0.5,
    )
    tool = Span(span_id="3", parent_id="1", span_type="tool", tool_name="search", error="late")
    facts = read_facts(make(spans=[root, call, tool]))
    assert (facts.started_at, facts.duration, facts.has_root) == (1e9, 2.0, True)
    assert (facts.models, facts.tools, facts.tokens, facts.cost) == (("m",), ("search",), 7, 0.5)
    assert (facts.model_calls, facts.tool_calls, facts.errors) == (1, 1, 1)
    assert (facts.asked, facts.answered, facts.error) == ("How warm?", "12", "late")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("session.id", "session"),
        ("langfuse.session.id", "session"),
        ("gen_ai.conversation.id", "session"),
        ("user.id", "user"),
        ("enduser.id", "user"),
        ("service.version", "version"),
        ("langfuse.release", "version"),
    ],
)
def test_each_library_has_its_own_names(name: str, field: str) -> None:
    facts = read_facts(make(spans=[Span(metadata={name: "x"})]))
    assert getattr(facts, field) == "x"


def test_tags_are_a_list_or_a_text_with_commas_and_the_environment_is_one() -> None:
    spans = [
        Span(metadata={"tag.tags": ["a", "b"]}),
        Span(metadata={"langsmith.span.tags": "b, c"}),
    ]
    resource = {"resource": {"deployment.environment.name": "prod", "service.name": "desk"}}
    facts = read_facts(make(spans=spans, metadata=resource))
    assert sorted(facts.tags) == ["a", "b", "c", "env:prod"]
    assert facts.service == "desk"


def test_a_trace_that_says_nothing_has_nothing() -> None:
    assert read_facts(Trace()) == TraceFacts()


def test_a_start_that_cannot_be_one_is_none() -> None:
    spans = [Span(start_ms=-5.0), Span(start_ms=1e30)]
    assert read_facts(make(spans=spans)).started_at is None


def test_long_texts_and_many_labels_are_cut() -> None:
    spans = [Span(span_type="tool", tool_name=f"t{n}" + "x" * 500) for n in range(100)]
    facts = read_facts(make(spans=spans))
    assert len(facts.tools) == 50
    assert max(map(len, facts.tools)) == 200


def test_two_parts_of_a_trace_are_counted_together() -> None:
    early = TraceFacts(started_at=10.0, duration=1.0, spans=2, cost=0.1, models=("a",), asked="q")
    root = TraceFacts(
        started_at=9.0, duration=5.0, spans=1, has_root=True, status="error", name="r", cost=0.2
    )
    both = combine_facts(early, root)
    assert (both.started_at, both.duration, both.spans) == (9.0, 5.0, 3)
    assert (both.name, both.status, both.has_root, both.models) == ("r", "error", True, ("a",))
    assert both.cost == pytest.approx(0.3)
    assert combine_facts(root, early).duration == both.duration
