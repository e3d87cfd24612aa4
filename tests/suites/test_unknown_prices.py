"""A price that nobody knows is told before anything is asked."""

from __future__ import annotations

import pytest
from tests.suites.suite_texts import load

from tallymark.suites.unknown_prices import find_unknown_prices

SUITE = "evals: [{{name: a, prompt: hi, checks: [{check}]}}]\nscore: {formula}"


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("anthropic/claude-3.5-sonnet", True),
        ("openai/gpt-5-mini", True),
        ("openai-responses/gpt-5-mini", True),
        ("openai/nonsense-9", False),
        ("ollama/llama3", False),
        ("https://api.openai.com/v1#gpt-5-mini", True),
        ("http://127.0.0.1:9/v1#gpt-5-mini", False),
        ("echo/x", False),
        ("python/agent.py:answer", True),
        ("replay/samples", True),
        ("nothing", True),
        ("openai/{{var('name')}}", True),
    ],
)
def test_whose_price_is_known(model: str, known: bool) -> None:
    suite = load(SUITE.format(check="", formula="success_pct / total_cost"))
    said = list(find_unknown_prices(suite, [model]))
    start = f"the price of {model} is unknown: the formula's total_cost has no value"
    assert [each.startswith(start) for each in said] == ([] if known else [True])


@pytest.mark.parametrize(
    ("formula", "check", "needed"),
    [
        ("success_pct", "", None),
        ("success_pct - judge_cost - total_tokens", "", None),
        ("a_cost * 2", "", "the formula's a_cost has no value"),
        ("success_pct", "max_cost: 1", "the check max_cost cannot be done"),
    ],
)
def test_only_where_a_cost_is_needed(formula: str, check: str, needed: str | None) -> None:
    suite = load(SUITE.format(check=check, formula=formula))
    said = list(find_unknown_prices(suite, ["echo/x"]))
    assert [needed in each for each in said if needed] == ([True] if needed else said)


def test_a_suite_that_says_the_price_knows_it() -> None:
    text = SUITE.format(check="", formula="total_cost")
    suite = load(f"metadata: {{pricing: {{input: 1, output: 1}}}}\n{text}")
    assert list(find_unknown_prices(suite, ["echo/x"])) == []


def test_a_budget_needs_prices_too() -> None:
    suite = load(SUITE.format(check="", formula="success_pct"))
    (said,) = find_unknown_prices(suite, ["ollama/llama3"], has_budget=True)
    assert "--budget stops nothing unless its answers report their cost" in said
