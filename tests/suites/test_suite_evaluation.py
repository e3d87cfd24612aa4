"""Asking a model every case: what is counted on the way agrees with what is told."""

from __future__ import annotations

import asyncio

import pytest
from tests.suites.suite_texts import load

from tallymark.errors import ModelError
from tallymark.models import Answer, Request, retries
from tallymark.runs.record import CaseResult
from tallymark.runs.run import CaseView
from tallymark.suites.filled_suite import resolve
from tallymark.suites.suite_evaluation import RunLimits, SuiteEvaluation

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


def test_the_epochs_of_a_case_add_up_exactly() -> None:
    text = "metadata: {epochs: 3}\nevals: [{prompt: a, checks: []}]"
    assert CaseView("#1", evaluate(text, Scripted())).cost == 0.3
