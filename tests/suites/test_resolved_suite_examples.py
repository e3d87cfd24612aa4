"""The example suites and the starter run, on sample answers and on an echo."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallymark.models import Request, open_model
from tallymark.runs.case_verdict import judge_case
from tallymark.runs.record import CaseStatus, CheckResult
from tallymark.suites.resolved_suite import FilledCase, resolve
from tallymark.suites.starter import read_starter_suite
from tallymark.suites.suite_findings import validate

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").is_file())
EXAMPLES = sorted((ROOT / "examples" / "suites").glob("*.yaml"))


async def asked(case: FilledCase, model: str, folder: Path, epoch: int = 0) -> CaseStatus:
    """What the checks say about a conversation with a model."""
    opened = open_model(model, folder=folder, pricing={"input": 3, "output": 15})
    said: list[str] = []
    results: list[CheckResult] = []
    while (messages := case.messages(said)) is not None:
        request = Request(messages=messages, epoch=epoch)
        answer = await opened.answer(request)
        subject = case.subject(answer, request)
        results += await case.asked[len(said)].checks.evaluate(subject)
        said.append(answer.output)
        if len(said) == len(case.asked):
            results += await case.checks.evaluate(subject)
    return judge_case(results)


def statuses(path: Path, model: str) -> dict[str, CaseStatus]:
    definition, _ = validate(path)
    suite = resolve(definition)
    return {
        f"{case.key}#{epoch}": asyncio.run(asked(suite.case(case), model, path.parent, epoch))
        for case in definition.cases
        for epoch in range(suite.case(case).epochs)
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_careful_sample_answers_pass(path: Path) -> None:
    assert set(statuses(path, "replay/careful").values()) == {"passed"}


@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("support-desk", ["as-data#0", "order-status#0", "refund-window#0"]),
        ("capitals", ["capital[au]#0", "capital[au]#1", "capital[ca]#0"]),
        ("weighted-cost-eval", ["critical-math#0"]),
        ("my-eval-suite", []),
    ],
)
def test_the_hasty_ones_fail_here_and_there(name: str, failed: list[str]) -> None:
    found = statuses(EXAMPLES[0].parent / f"{name}.yaml", "replay/hasty")
    assert sorted(key for key, status in found.items() if status == "failed") == failed
    assert "error" not in found.values()


def test_the_starter_runs_without_anything(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(read_starter_suite(), encoding="utf-8")
    definition, findings = validate(path)
    assert [finding for finding in findings if finding.level == "warning"] == []
    assert set(statuses(path, definition.models[0]).values()) == {"passed"}
