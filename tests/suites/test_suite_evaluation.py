"""Asking a model every case: what it needs is loaded before the first one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tallymark.judging.judge_model import JudgeModel
from tallymark.models import Answer, Request
from tallymark.runs.record import CaseResult
from tallymark.suites.filled_suite import resolve
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
