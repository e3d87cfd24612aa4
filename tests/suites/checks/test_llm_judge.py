"""`llm_judge`: a judge decides whether criteria are met."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.suites.checks.built_checks import built, subject

from tallymark.errors import InvalidInput
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import Checks
from tallymark.suites.checks.check_results import evaluate_checks


def judged(config: Any, judge: Callable[[str], Any], output: str = "Hello, friend") -> CheckResult:
    checks = Checks.of([built("llm_judge", config, judge=judge)])
    return asyncio.run(evaluate_checks(checks, subject(output)))[0]


def saying(choice: str) -> Callable[[str], str]:
    return lambda _: f'{{"reasoning": "because", "choice": "{choice}"}}'


@pytest.mark.parametrize(
    ("config", "choice", "passed", "value"),
    [
        ("Is it polite?", "met", True, 1.0),
        ("Is it polite?", "partly met", False, 0.5),
        ("Is it polite?", "not met", False, 0.0),
        ({"criteria": "Is it polite?"}, "met", True, 1.0),
        ({"criteria": "Is it polite?", "threshold": 0.5}, "partly met", True, 0.5),
    ],
)
def test_verdicts(config: Any, choice: str, passed: bool, value: float) -> None:
    result = judged(config, saying(choice))
    assert (result.passed, result.value, result.error) == (passed, value, None)
    assert result.reason.endswith(": because")


def test_the_judge_sees_request_answer_and_criteria() -> None:
    prompts: list[str] = []

    def judge(prompt: str) -> str:
        prompts.append(prompt)
        return '{"reasoning": "r", "choice": "met"}'

    judged("It greets the user.", judge)
    for part in ("the prompt", "Hello, friend", "It greets the user."):
        assert part in prompts[0]


def test_a_judge_that_raises_is_an_error() -> None:
    def broken(_: str) -> str:
        raise ConnectionError("no network")

    result = judged("polite", broken)
    assert (result.passed, result.value) == (False, None)
    assert "no network" in str(result.error)


def test_a_judge_that_mumbles_is_an_error() -> None:
    assert "could not be read" in str(judged("polite", lambda _: "hm").error)


def test_without_a_judge_it_cannot_be_built() -> None:
    with pytest.raises(InvalidInput, match="no model is named to judge"):
        built("llm_judge", "polite")
