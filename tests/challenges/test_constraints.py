"""What an attempt used, and what that breaks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallymark.challenges.challenge import Constraints
from tallymark.challenges.constraints import MOST, Usage, find_violations, sum_usage
from tallymark.traces import Span, Trace


def trace(*spans: dict[str, Any]) -> Trace:
    return Trace(spans=[Span(**span) for span in spans])


CALL = {"span_type": "generation"}


@pytest.mark.parametrize(
    ("usage", "constraints", "said"),
    [
        pytest.param(Usage(tokens=4000), Constraints(tokens=4000), [], id="all of the budget"),
        pytest.param(
            Usage(tokens=4001),
            Constraints(tokens=4000),
            ["it used 4,001 tokens, and 4,000 are allowed"],
            id="a token too many",
        ),
        pytest.param(
            Usage(calls=3),
            Constraints(calls=2),
            ["it used 3 calls, and 2 are allowed"],
            id="a call too many",
        ),
        pytest.param(
            Usage(cost=0.25),
            Constraints(cost=0.1),
            ["it cost $0.2500, and $0.1000 is allowed"],
            id="too dear",
        ),
        pytest.param(
            Usage(tools=("grep", "browser")),
            Constraints(tools=("grep",)),
            ["the tool 'browser' is not allowed"],
            id="a tool of its own",
        ),
        pytest.param(
            Usage(tools=("grep",)),
            Constraints(tools=()),
            ["the tool 'grep' is not allowed"],
            id="no tool at all is allowed",
        ),
        pytest.param(Usage(tools=("browser",)), Constraints(), [], id="any tool is allowed"),
        pytest.param(Usage(), Constraints(tokens=1, calls=1, cost=0.0), [], id="nothing is known"),
        pytest.param(
            Usage(tokens=2, calls=2, cost=2.0),
            Constraints(tokens=1, calls=1, cost=1.0),
            [
                "it used 2 tokens, and 1 are allowed",
                "it used 2 calls, and 1 are allowed",
                "it cost $2.0000, and $1.0000 is allowed",
            ],
            id="everything at once",
        ),
    ],
)
def test_a_violation_is_a_sentence(usage: Usage, constraints: Constraints, said: list[str]) -> None:
    assert list(find_violations(usage, constraints)) == said


def test_many_wrong_tools_are_summed_up() -> None:
    said = find_violations(Usage(tools=tuple("abcdefgh")), Constraints(tools=()))
    assert len(said) == 6
    assert said[-1] == "3 more tools are not allowed"


@pytest.mark.parametrize(
    ("spans", "tokens", "calls"),
    [
        pytest.param([], None, 0, id="no steps"),
        pytest.param([{**CALL, "input_tokens": 5, "output_tokens": 2}], 7, 1, id="one call"),
        pytest.param([{**CALL, "input_tokens": 5}, CALL], None, 2, id="a call without tokens"),
        pytest.param(
            [{"span_id": "a", "input_tokens": 9}, {**CALL, "parent_id": "a"}], 9, 1,
            id="counted above",
        ),
        pytest.param(
            [
                {"span_id": "a", "input_tokens": 9},
                {"span_id": "b", "parent_id": "a"},
                {**CALL, "span_id": "c", "parent_id": "b"},
            ],
            9,
            1,
            id="counted two levels above",
        ),
        pytest.param(
            [{"span_id": "tool", "span_type": "tool", "input_tokens": 1}, {**CALL, "span_id": "x"}],
            None,
            2,
            id="counted elsewhere",
        ),
        pytest.param(
            [
                {**CALL, "span_id": "a", "parent_id": "b"},
                {**CALL, "span_id": "b", "parent_id": "a"},
            ],
            None,
            2,
            id="a circle",
        ),
        pytest.param([{**CALL, "input_tokens": -5}], None, 1, id="negative"),
        pytest.param(
            [{**CALL, "input_tokens": MOST}, {**CALL, "input_tokens": MOST}], None, 2, id="huge"
        ),
        pytest.param(
            [{"span_type": "event"}, {"span_type": "retrieval"}], None, 0, id="no calls"
        ),
    ],
)  # fmt: skip
def test_tokens_are_known_only_when_every_model_call_is_counted(
    spans: list[dict[str, Any]], tokens: int | None, calls: int
) -> None:
    used = sum_usage(trace(*spans))
    assert (used.tokens, used.calls) == (tokens, calls)


@pytest.mark.parametrize(
    ("costs", "total"),
    [
        pytest.param([0.1, 0.2], 0.1 + 0.2, id="known"),
        pytest.param([0.1, None], None, id="one not known"),
        pytest.param([math.nan], None, id="not a number"),
        pytest.param([1e308, 1e308], None, id="beyond all numbers"),
        pytest.param([0.0], 0.0, id="free is not unknown"),
    ],
)
def test_the_cost_is_the_sum_of_known_costs(costs: list[Any], total: float | None) -> None:
    assert sum_usage(trace(*({**CALL, "cost": cost} for cost in costs))).cost == total


def test_tools_are_named_once_in_order() -> None:
    called = [{"span_type": "tool", "tool_name": name} for name in ("b", "a", "b")]
    assert sum_usage(trace(*called)).tools == ("b", "a")


def test_a_deep_trace_is_climbed_once() -> None:
    """Else this would take a hundred million steps."""
    deep: list[dict[str, Any]] = [{"span_id": "0", "input_tokens": 1}]
    deep += [{"span_id": str(i), "parent_id": str(i - 1)} for i in range(1, 10_000)]
    deep += [{**CALL, "span_id": f"call {i}", "parent_id": "9999"} for i in range(10_000)]
    assert sum_usage(trace(*deep)).tokens == 1
