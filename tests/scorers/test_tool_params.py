from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import ran, said, tool

from tallymark.errors import ScorerError
from tallymark.scorers.tool_params import tool_params
from tallymark.traces import Span

FINE = "All tool calls valid"
NO_QUERY = "search: missing query parameter"


@pytest.mark.parametrize(
    ("inputs", "value", "reason"),
    [
        (['{"query": "x"}'], 1.0, FINE),
        (['{"query": "日本"}'], 1.0, FINE),
        (["{}"], 0.0, NO_QUERY),
        ([""], 0.0, NO_QUERY),
        ([None], 0.0, NO_QUERY),
        (['{"query": "x"}', "{}"], 0.5, NO_QUERY),
        (["{}", "{}"], 0.0, f"{NO_QUERY}; {NO_QUERY}"),
        # What JavaScript takes for missing, and what it does not.
        (['{"query": null}'], 0.0, NO_QUERY),
        (['{"query": ""}'], 0.0, NO_QUERY),
        (['{"query": 0}'], 0.0, NO_QUERY),
        (['{"query": false}'], 0.0, NO_QUERY),
        (['{"query": []}'], 1.0, FINE),
        (['{"query": {}}'], 1.0, FINE),
        (['{"query": "\\ud800"}'], 1.0, FINE),
        # JSON, but not an object.
        (['"x"'], 0.0, NO_QUERY),
        (["[1]"], 0.0, NO_QUERY),
        (["null"], 0.0, NO_QUERY),
    ],
)
def test_the_document_s_values(inputs: list[str | None], value: float, reason: str) -> None:
    score = tool_params().score(ran(*(tool("search", given) for given in inputs)))
    assert (score.value, score.reason) == (value, reason)


@pytest.mark.parametrize("broken", ["{query: 1}", "weather", '{"query": NaN}', "[" * 10_000])
@pytest.mark.parametrize("name", ["search", "mail"])
def test_input_that_is_no_json_is_an_invalid_call_of_any_tool(broken: str, name: str) -> None:
    score = tool_params().score(ran(tool(name, broken), tool("search", '{"query": 1}')))
    assert (score.value, score.reason) == (0.5, f"{name}: input is not valid JSON")


def test_no_calls_are_a_zero() -> None:
    score = tool_params().score(said("Hello"))
    assert (score.value, score.reason) == (0.0, "No tool calls found")


def test_a_tool_without_a_tool_name_goes_by_the_name_of_its_span() -> None:
    span = Span(span_type="tool", name="search", tool_input="{}")
    assert tool_params().score(ran(span)).reason == NO_QUERY


def test_tools_and_parameters_of_one_s_own() -> None:
    mine = tool_params(required={"mail": ["to", "text"]})
    score = mine.score(ran(tool("mail", '{"subject": "Hi"}'), tool("search", "{}")))
    assert score.value == 0.5
    assert score.reason == "mail: missing to parameter; mail: missing text parameter"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"required": ["query"]}, "the option 'required' is ['query']"),
        ({"required": {"search": "query"}}, "Expected `array`, got `str`"),
        ({"required": {"search": [None]}}, "Expected `str`, got `null`"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        tool_params(**options)
    assert message in str(refused.value)
