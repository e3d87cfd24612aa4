"""Asking a model every case: what it needs is loaded first, and what is counted agrees."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.suites.suite_texts import load

from tallymark.errors import ModelError
from tallymark.judging.judge_model import JudgeModel
from tallymark.judging.spending import JudgeSpending
from tallymark.models import Answer, Request, retries
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.runs.run import CaseView
from tallymark.suites import suite_evaluation
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.suite_evaluation import RunLimits, SuiteEvaluation
from tallymark.suites.suite_file import load_suite

SUITE = """
metadata: {name: loading}
evals:
  - {name: one, prompt: a, checks: [{match: a}]}
  - {name: two, prompt: b, checks: [{match: b}]}
"""


class Slow:
    """A model that takes a while to load; notes what it does in a book that others share."""

    def __init__(self, name: str, book: list[str]) -> None:
        self.name = name
        self._book = book

    def load(self) -> None:
        self._book.append(f"{self.name} is loaded")

    async def answer(self, request: Request) -> Answer:
        self._book.append(f"{self.name} answers")
        return Answer(output=request.prompt, latency=0)

    async def close(self) -> None:
        self._book.append(f"{self.name} is closed")


def test_model_and_judges_are_loaded_before_the_first_case(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    book: list[str] = []
    judge = JudgeModel(Slow("the judge", book))
    suite = resolve(load_suite(tmp_path / "suite.yaml"))
    results: list[CaseResult] = []

    async def add(result: CaseResult) -> None:
        results.append(result)

    asyncio.run(SuiteEvaluation(suite, Slow("the model", book), RunLimits()).run(add))
    assert judge.name == "the judge"
    assert [result.status for result in results] == ["passed", "passed"]
    assert book == [
        "the model is loaded",
        "the judge is loaded",
        "the model answers",
        "the model answers",
        "the model is closed",
    ]


BUSY = ModelError("busy", retryable=True)
TALK = "evals: [{turns: [{user: a}, {user: b}, {user: c}], checks: [{max_cost: 0.3}]}]"


class Scripted:
    """Answers for $0.10 and 0.1 s, after the failures that a prompt has."""

    name = "scripted/model"

    def __init__(self, **failures: list[ModelError]) -> None:
        self.failures = failures

    async def answer(self, request: Request) -> Answer:
        if waiting := self.failures.get(request.prompt):
            raise waiting.pop()
        return Answer(output="yes", latency=0.1, cost=0.1)

    async def close(self) -> None: ...


def evaluate(text: str, model: Scripted, **limits: float) -> list[CaseResult]:
    found: list[CaseResult] = []

    async def add(result: CaseResult) -> None:
        found.append(result)

    limits.setdefault("threads", 1)
    chosen = RunLimits(**limits)  # type: ignore[arg-type]
    asyncio.run(SuiteEvaluation(resolve(load(text)), model, chosen).run(add))
    return found


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.0)


@pytest.mark.parametrize(
    ("text", "failures", "tries", "error"),
    [
        ("evals: [{prompt: a, checks: []}]", {}, 1, None),
        ("evals: [{prompt: a, checks: []}]", {"a": 2}, 3, None),
        ("evals: [{prompt: a, checks: []}]", {"a": 9}, 5, "busy; tried 5 times"),
        (
            "metadata: {retries: 0}\nevals: [{prompt: a, checks: []}]",
            {"a": 9},
            1,
            "busy",
        ),
        (TALK, {}, 1, None),
        (TALK, {"a": 1, "b": 2}, 3, None),
        (TALK, {"a": 1, "b": 9}, 5, "busy; tried 5 times"),
    ],
)
def test_the_tries_are_those_that_the_error_tells(
    text: str, failures: dict[str, int], tries: int, error: str | None
) -> None:
    model = Scripted(**{prompt: [BUSY] * count for prompt, count in failures.items()})
    (result,) = evaluate(text, model)
    assert (result.tries, result.error) == (tries, error)


def test_the_turns_of_a_conversation_add_up_exactly() -> None:
    (result,) = evaluate(TALK, Scripted())
    assert (result.cost, result.latency, result.status) == (0.3, 0.3, "passed")


def test_a_budget_of_three_dimes_pays_for_three_cases() -> None:
    text = "evals: [{prompt: a, checks: []}, {prompt: b, checks: []}, {prompt: c, checks: []}]"
    assert len(evaluate(text, Scripted(), budget=0.3)) == 3


def test_the_epochs_of_a_case_have_a_mean_of_their_exact_sum() -> None:
    text = "metadata: {epochs: 3}\nevals: [{prompt: a, checks: []}]"
    assert CaseView("#1", evaluate(text, Scripted())).cost == 0.3 / 3


def test_a_budget_pays_for_judges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case costs $0.10 and its judge, in an alternative, $0.05: two fit into $0.35."""
    spent = CheckResult(kind="llm_judge", passed=True, judge=JudgeSpending("m", 1, 9, 9, 0.05))
    either = CheckResult(kind="or", passed=True, parts=(spent,))

    async def judge(*_: object, **__: object) -> list[CheckResult]:
        return [either]

    monkeypatch.setattr(suite_evaluation, "_check_turn", judge)
    text = "evals: [{prompt: a, checks: []}, {prompt: b, checks: []}, {prompt: c, checks: []}]"
    assert len(evaluate(text, Scripted(), budget=0.35)) == 2
    assert len(evaluate(text, Scripted(), budget=0.45)) == 3
