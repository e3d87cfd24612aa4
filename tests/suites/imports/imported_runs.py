"""Running what was imported, for the tests of imports."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tallymark.documents.source import Source
from tallymark.models import Answer, Request
from tallymark.runs.record import CaseResult
from tallymark.suites.imports.imported_suite import ImportedSuite, import_suite, write_yaml
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.suite_evaluation import RunLimits, SuiteEvaluation
from tallymark.suites.suite_file import load_source


class Recorded:
    """Answers a prompt with what is recorded for it, or with itself."""

    name = "recorded/answers"

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    async def answer(self, request: Request) -> Answer:
        return Answer(
            output=self.answers.get(request.prompt, request.prompt), latency=0.5, cost=1.0
        )

    async def close(self) -> None: ...


def run_imported(made: ImportedSuite, answers: dict[str, str] | None = None) -> list[CaseResult]:
    """The results of the suite, in its order; it is read as a user's file is."""
    suite = load_source(Source(write_yaml(made.document), "imported.yaml"))
    found: list[CaseResult] = []

    async def add(result: CaseResult) -> None:
        found.append(result)

    limits = RunLimits(threads=1)
    model = Recorded(answers or {})
    asyncio.run(SuiteEvaluation(resolve(suite, judge=lambda _: ""), model, limits).run(add))
    return found


def import_text(folder: Path, text: str, **files: str) -> ImportedSuite:
    """What a configuration makes; the files stand beside it, by names with __ for the dot."""
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content, encoding="utf-8")
    path = folder / "promptfooconfig.yaml"
    path.write_text(text, encoding="utf-8")
    return import_suite(path)


def left_out(made: ImportedSuite, folder: Path) -> list[str]:
    """What could not be carried over, as it is told."""
    return [str(each).replace(f"{folder}/", "") for each in made.left_out]


def prompts(made: ImportedSuite) -> list[Any]:
    return [each.get("prompt") for each in made.document["evals"]]
