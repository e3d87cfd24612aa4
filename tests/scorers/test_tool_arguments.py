from __future__ import annotations

import json
from typing import Any

import pytest
from tests.scorers.contexts import NOTHING, called, model, ran, tool

from tallymark.errors import ScorerError
from tallymark.scorers.tool_arguments import tool_arguments
from tallymark.scoring import EvalContext

Calls = list[tuple[str, dict[str, Any]]]
FINE = "All expected arguments were given"


def ctx(made: Calls, expected: Calls) -> EvalContext:
    wanted = [{"name": name, "arguments": arguments} for name, arguments in expected]
    spans = [tool(name, json.dumps(arguments)) for name, arguments in made]
    return ran(*spans, model("Done."), tool_calls=wanted)


@pytest.mark.parametrize(
    ("made", "expected", "value", "reason"),
    [
        ([("s", {"q": "x"})], [("s", {"q": "x"})], 1.0, FINE),
        ([("s", {"q": "日本"})], [("s", {"q": "日本"})], 1.0, FINE),
        ([("s", {"q": "x", "n": 5})], [("s", {"q": "x"})], 1.0, FINE),
        ([("s", {"q": "y", "n": 5})], [("s", {"q": "x", "n": 5})], 0.5, "s: q differs"),
        ([("s", {"n": 5})], [("s", {"q": "x", "n": 5})], 0.5, "s: q is missing"),
        ([("s", {"n": None})], [("s", {"n": None})], 1.0, FINE),
        ([("s", {})], [("s", {"n": None})], 0.0, "s: n is missing"),
        ([("s", {"n": 1})], [("s", {"n": True})], 0.0, "s: n differs"),
        ([("s", {"n": 1.0})], [("s", {"n": 1})], 1.0, FINE),
        ([("s", {"f": {"a": [1]}})], [("s", {"f": {"a": [1]}})], 1.0, FINE),
        ([("s", {"q": "x"})], [("s", {})], 1.0, FINE),
        ([], [("s", {"q": "x"})], 0.0, "s: not called"),
        ([("t", {"q": "x"})], [("s", {"q": "x"})], 0.0, "s: not called"),
        (
            [("s", {"q": 1}), ("t", {"q": 2})],
            [("s", {"q": 1}), ("t", {"q": 3}), ("u", {"q": 4})],
            1 / 3,
            "t: q differs; u: not called",
        ),
        # Each expected call has a call of its own, the one that fits best.
        ([("s", {"q": 2}), ("s", {"q": 1})], [("s", {"q": 1}), ("s", {"q": 2})], 1.0, FINE),
        ([("s", {"q": 1})], [("s", {"q": 1}), ("s", {"q": 1})], 0.5, "s: not called"),
        (
            [("s", {"q": 2}), ("s", {"q": 1, "n": 3})],
            [("s", {"q": 1, "n": 4})],
            0.5,
            "s: n differs",
        ),
    ],
)
def test_the_share_of_arguments_that_are_right(
    made: Calls, expected: Calls, value: float, reason: str
) -> None:
    score = tool_arguments().score(ctx(made, expected))
    assert score.value == pytest.approx(value)
    assert score.reason == reason


@pytest.mark.parametrize(
    ("given", "value", "reason"),
    [
        ({"q": "x"}, 1.0, FINE),
        ({"q": "x", "n": 5}, 0.5, "s: n is not expected"),
        ({"n": 5}, 0.0, "s: q is missing; s: n is not expected"),
    ],
)
def test_exact_keys_count_what_was_not_expected(
    given: dict[str, Any], value: float, reason: str
) -> None:
    score = tool_arguments(exact_keys=True).score(ctx([("s", given)], [("s", {"q": "x"})]))
    assert (score.value, score.reason) == (value, reason)


@pytest.mark.parametrize("given", ["{", "[1]", "null", "text"])
@pytest.mark.parametrize("wanted", [{}, {"q": 1}])
def test_input_that_is_no_object_has_no_right_arguments(given: str, wanted: dict[str, Any]) -> None:
    made = ran(tool("s", given), tool_calls=[{"name": "s", "arguments": wanted}])
    score = tool_arguments().score(made)
    assert (score.value, score.reason) == (0.0, "s: input is not a JSON object")


@pytest.mark.parametrize("given", [None, "", "{}"])
def test_no_input_is_no_arguments(given: str | None) -> None:
    made = ran(tool("s", given), tool_calls=[{"name": "s", "arguments": {"q": 1}}])
    assert tool_arguments().score(made).reason == "s: q is missing"


def test_arguments_may_stand_in_the_span_s_own_input() -> None:
    made = ran(tool("s", input='{"q": 1}'), tool_calls=[{"name": "s", "arguments": {"q": 1}}])
    assert tool_arguments().score(made).value == 1.0


def test_expected_calls_without_arguments_are_not_looked_at() -> None:
    wanted = ["t", {"name": "u"}, {"name": "s", "arguments": {"q": 1}}]
    assert tool_arguments().score(ran(tool("s", '{"q": 1}'), tool_calls=wanted)).value == 1.0


@pytest.mark.parametrize(
    "given", [NOTHING, called("s"), called("s", tool_calls=[]), called("s", tool_calls=["s"])]
)
def test_no_expected_arguments_are_no_zero(given: EvalContext) -> None:
    score = tool_arguments().score(given)
    assert score.value is None
    assert score.error == (
        "tool_arguments needs expected.tool_calls with arguments, and none was given"
    )


def test_expected_arguments_that_are_no_mapping_are_no_zero() -> None:
    score = tool_arguments().score(called("s", tool_calls=[{"name": "s", "arguments": "q"}]))
    assert score.error == "tool_arguments: the expected arguments of s are 'q', not a mapping"


@pytest.mark.parametrize("options", [{"exact_keys": "yes"}, {"exact_keys": None}, {"exact": True}])
def test_refused_options(options: dict[str, Any]) -> None:
    with pytest.raises(ScorerError, match=next(iter(options))):
        tool_arguments(**options)
