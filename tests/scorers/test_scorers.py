"""What holds for every built-in scorer that needs no model and no service."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.scoring import EvalContext, Expected, ScorerBuilder, default_registry, load_scorer
from tallymark.traces import Span, Trace

PAGE = Path(__file__).parents[2] / "docs" / "builtin-scorers.md"
REFERENCES = {
    "contains": "contains",
    "cost": "cost(target=0.01, limit=0.1)",
    "edit_distance": "edit_distance",
    "no_errors": "no_errors",
    "exact_match": "exact_match",
    "iterations": "iterations(target=1, limit=3)",
    "json_match": "json_match",
    "json_schema": 'json_schema(schema={"type": "object", "required": ["a"]})',
    "keyword_match": 'keyword_match(keywords=["a", "é"])',
    "latency": "latency(target=1, limit=10)",
    "numeric_closeness": "numeric_closeness",
    "plan_adherence": "plan_adherence",
    "recovery": "recovery",
    "regex_match": r'regex_match(pattern="\d+")',
    "sentiment": "sentiment",
    "token_use": "token_use(target=10, limit=100)",
    "tool_arguments": "tool_arguments",
    "tool_params": "tool_params",
    "tool_selection": "tool_selection",
    "tool_sequence": "tool_sequence",
    "word_count": "word_count",
}
NAMES = sorted(REFERENCES)

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "query"]), inner, max_size=3)
    ),
    max_leaves=6,
)
OUTPUTS = st.text(max_size=30) | DATA.map(json.dumps) | st.just("[" * 5000) | st.floats().map(str)
TOOLS = st.sampled_from(["search", "book", ""])
SPANS = st.builds(
    Span,
    name=TOOLS,
    span_type=st.sampled_from(["span", "generation", "tool", "retrieval", "event"]),
    output=OUTPUTS,
    tool_name=st.none() | TOOLS,
    tool_input=st.none() | OUTPUTS,
    duration_ms=st.floats(0, 1e308),
    status=st.sampled_from(["ok", "error"]),
    error=st.none() | st.text(max_size=3),
    input_tokens=st.none() | st.integers(0, 2**63),
    output_tokens=st.none() | st.integers(0, 2**63),
    cost=st.none() | st.floats(0, 1e300),
)
EXPECTED = st.builds(
    Expected,
    output=DATA | OUTPUTS,
    output_contains=st.none() | st.lists(st.text(max_size=3), max_size=3),
    tool_calls=st.none()
    | st.lists(TOOLS | st.fixed_dictionaries({"name": TOOLS, "arguments": DATA}), max_size=4),
    extra=st.dictionaries(st.just("plan"), DATA | st.lists(TOOLS), max_size=1),
)
UNKNOWN = [
    EvalContext(Trace(duration_ms=9.0, spans=spans), expected)
    for expected in [Expected(output="1", output_contains=["1"], tool_calls=["search"])]
    for spans in (
        [],
        [Span(name="a step in a dialect that we do not know", metadata={"x": 1})],
        [Span(span_type="event", name="note", output="not an answer")],
    )
]
READ_OTHER_THINGS = {"no_errors", "latency"}


@pytest.mark.parametrize("ctx", UNKNOWN)
@pytest.mark.parametrize("name", sorted(REFERENCES.keys() - READ_OTHER_THINGS))
def test_what_was_not_seen_is_not_zero(name: str, ctx: EvalContext) -> None:
    score = load_scorer(REFERENCES[name]).score(ctx)
    assert score.value is None
    assert score.error is not None


CONTEXTS = st.builds(
    EvalContext,
    st.builds(Trace, duration_ms=st.floats(0, 1e308), spans=st.lists(SPANS, max_size=6)),
    EXPECTED,
)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_found_by_its_name(name: str) -> None:
    assert load_scorer(REFERENCES[name]).name == name


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_where_it_is_called(name: str) -> None:
    assert load_scorer(REFERENCES[name]).inline


@pytest.mark.parametrize("name", NAMES)
def test_its_description_is_the_formula_that_the_page_shows(name: str) -> None:
    builder = default_registry.get(name)
    assert isinstance(builder, ScorerBuilder)
    rows = [line.split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    formula, options = next(rest for first, *rest in rows if first == f"| `{name}`")
    assert formula == builder.description
    for option in inspect.signature(builder.wrapped).parameters:
        assert f"`{option}" in options


@settings(deadline=None)
@given(CONTEXTS)
def test_odd_traces_have_a_value_from_0_to_1_or_an_error_in_words(ctx: EvalContext) -> None:
    for each in map(load_scorer, REFERENCES.values()):
        score = each.score(ctx)
        if score.error is None:
            assert score.value is not None, each
            assert 0 <= score.value <= 1, each
            assert score.reason, each
        else:
            assert score.value is None, each
            assert " raised " not in score.error, each
        json.dumps(score.to_dict(), allow_nan=False)


@settings(deadline=None)
@given(CONTEXTS)
def test_the_same_trace_has_the_same_score(ctx: EvalContext) -> None:
    for reference in REFERENCES.values():
        assert load_scorer(reference).score(ctx) == load_scorer(reference).score(ctx)


@pytest.mark.parametrize("name", NAMES)
def test_the_config_is_plain_data(name: str) -> None:
    config: dict[str, Any] = load_scorer(REFERENCES[name]).origin.config
    json.dumps(config, allow_nan=False)
