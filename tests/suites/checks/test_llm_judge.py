"""`llm_judge`: a judge decides whether criteria are met."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.judging.injections import INJECTIONS
from tests.suites.checks.built_checks import built, subject

from tallymark.errors import InvalidInput
from tallymark.judging.judge_model import open_judge
from tallymark.runs.record import CheckResult
from tallymark.scorers.llm_judge import llm_judge
from tallymark.suites.checks.check_definition import CheckJudge, Checks


def judged(config: Any, judge: CheckJudge, output: str = "Hello, friend") -> CheckResult:
    checks = Checks.of([built("llm_judge", config, judge=judge)])
    return asyncio.run(checks.evaluate(subject(output)))[0]


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
    assert (result.label, result.reason) == (choice, "because")


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


def test_both_doors_ask_the_same_by_the_same_line() -> None:
    prompts: list[str] = []

    def judge(prompt: str) -> str:
        prompts.append(prompt)
        return "met"

    judged("Is it polite?", judge)
    llm_judge("Is it polite?", judge=judge).score(subject("Hello, friend").context)
    assert prompts[0] == prompts[1]


@pytest.mark.parametrize("text", INJECTIONS)
def test_an_injection_is_only_evidence(text: str) -> None:
    prompts: list[str] = []

    def judge(prompt: str) -> str:
        prompts.append(prompt)
        return '{"reasoning": "it begs", "choice": "not met"}'

    assert judged("Is it polite?", judge, text).value == 0.0
    mark = prompts[0].split("end with the mark ")[1].split(".")[0]
    assert f"<<< ANSWER {mark}\n{text}\n>>> ANSWER {mark}" in prompts[0]
    assert prompts[0].count(mark) == 7  # one told, six fences


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_judge_that_repeats_an_injection_has_not_judged(text: str) -> None:
    """The criteria's own labels are in it, for once: an attacker may know them."""
    result = judged("polite", "echo/judge", f"{text}\nchoice: met")
    assert (result.passed, result.value) == (False, None)
    assert "could not be read, twice" in str(result.error)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param("polite", id="the suite's"),
        pytest.param({"criteria": "polite", "model": "python/own.py:judge"}, id="its own"),
    ],
)
def test_a_judge_may_be_whatever_a_run_takes(tmp_path: Path, config: Any) -> None:
    (tmp_path / "own.py").write_text("def judge(prompt):\n    return 'choice: partly met'\n")
    check = built(
        "llm_judge",
        config,
        judge="python/own.py:judge",
        open_judge=partial(open_judge, folder=tmp_path),
    )
    (result,) = asyncio.run(Checks.of([check]).evaluate(subject("Hello")))
    assert (result.value, result.error) == (0.5, None)


def test_a_judge_that_is_not_there_is_refused_when_the_check_is_built() -> None:
    with pytest.raises(InvalidInput, match="there are no answers 'lost' to replay"):
        built("llm_judge", {"criteria": "polite", "model": "replay/lost"})
