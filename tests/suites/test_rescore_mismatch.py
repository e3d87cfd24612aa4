"""A run rescored by a suite that asks something else: what is paired, and what is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.test_suite_runs import Silent

from tallymark.runs.reports import summary
from tallymark.runs.run import Run
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_suite

UNNAMED = """
metadata: {model: echo/x, threads: 1}
evals:
  - {prompt: alpha, checks: [match: alpha]}
  - {prompt: beta, checks: [match: beta]}
"""
NAMED = """
metadata: {model: echo/x, threads: 1}
evals:
  - {name: sum, prompt: 2 + 2, checks: [match: "2*"]}
  - {name: sky, prompt: blue, checks: [match: blue]}
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(str(tmp_path / "tally.db"))
    yield app
    app.close()


def ask(app: App, tmp_path: Path, text: str, limits: RunLimits | None = None) -> Run:
    (tmp_path / "suite.yaml").write_text(text)
    options = RunOptions(limits or RunLimits())
    (run,) = app.runs.run(load_suite(tmp_path / "suite.yaml"), [], options, Silent())
    return run


def rescore(app: App, tmp_path: Path, run: Run, text: str) -> Run:
    (tmp_path / "other.yaml").write_text(text)
    suite = app.runs.resolve_suite(load_suite(tmp_path / "other.yaml"), RunOptions())
    return app.runs.rescore_run(run.record.id, suite=suite)[1]


def test_unnamed_cases_that_moved_keep_their_answers(app: App, tmp_path: Path) -> None:
    gamma = "evals:\n  - {prompt: gamma, checks: [match: gamma]}"
    other = UNNAMED.replace("evals:", gamma)
    after = rescore(app, tmp_path, ask(app, tmp_path, UNNAMED), other)
    assert [(each.case, each.input, each.status) for each in after.results] == [
        ("#2", "alpha", "passed"),
        ("#3", "beta", "passed"),
    ]
    assert after.rescore_notes == ["1 case without an answer when it was rescored: #1 gamma"]


def test_an_unnamed_case_whose_number_another_has_now_is_left_out(app: App, tmp_path: Path) -> None:
    other = "evals:\n  - {prompt: beta, checks: [match: beta]}"
    after = rescore(app, tmp_path, ask(app, tmp_path, UNNAMED), other)
    assert [(each.case, each.input, each.status) for each in after.results] == [
        ("#1", "beta", "passed")
    ]
    assert after.rescore_notes == [
        "1 case of the run left out, because the suite has no such case: #1 alpha"
    ]


def test_an_edited_prompt_without_a_name_is_paired_by_its_number(app: App, tmp_path: Path) -> None:
    other = UNNAMED.replace("prompt: beta", "prompt: Beta")
    after = rescore(app, tmp_path, ask(app, tmp_path, UNNAMED), other)
    assert [each.case for each in after.results] == ["#1", "#2"]
    [note] = after.rescore_notes
    assert note == "1 case judged by the answer to another prompt than the suite has now: #2 Beta"


def test_what_is_not_asked_any_more_not_yet_or_otherwise_is_told(app: App, tmp_path: Path) -> None:
    other = NAMED.replace("2 + 2", "200 + 200").replace("name: sky", "name: sea")
    after = rescore(app, tmp_path, ask(app, tmp_path, NAMED), other)
    told = [
        "1 case without an answer when it was rescored: sea",
        "1 case of the run left out, because the suite has no such case: sky",
        "1 case judged by the answer to another prompt than the suite has now: sum",
    ]
    assert after.rescore_notes == told
    assert (after.record.status, after.describe_counts()) == (
        "partial_failure",
        "1 passed, 0 failed, 1 not run",
    )
    saved = app.load_run(app.runs.save_as_new(after).id)
    assert saved.rescore_notes == told
    assert all(note.split(":")[0][:60] in summary(saved) for note in told)


def test_a_saved_run_that_lacks_answers_can_be_completed(app: App, tmp_path: Path) -> None:
    other = NAMED.replace("name: sky", "name: sea")
    after = rescore(app, tmp_path, ask(app, tmp_path, NAMED, RunLimits(epochs=2)), other)
    assert after.missing == 2
    whole = app.runs.resume(app.runs.save_as_new(after).id, RunOptions(), None)
    assert (whole.record.status, whole.describe_counts()) == ("completed", "4 passed, 0 failed")


def test_a_formula_may_name_what_has_no_answer(app: App, tmp_path: Path) -> None:
    other = NAMED.replace("name: sky", "name: sea") + "score: sum + sea"
    after = rescore(app, tmp_path, ask(app, tmp_path, NAMED), other)
    assert (after.score, after.record.score_error) == (None, "sea has no value")


def test_a_run_of_some_cases_does_not_miss_the_others(app: App, tmp_path: Path) -> None:
    after = rescore(app, tmp_path, ask(app, tmp_path, NAMED, RunLimits(cases=1)), NAMED)
    assert (after.record.status, after.missing) == ("completed", 0)
    assert after.rescore_notes == ["1 case without an answer when it was rescored: sky"]


def test_the_same_questions_leave_nothing_to_tell(app: App, tmp_path: Path) -> None:
    after = rescore(app, tmp_path, ask(app, tmp_path, NAMED), NAMED.replace('"2*"', '"3*"'))
    assert (after.rescore_notes, after.missing, after.record.status) == ([], 0, "completed")


def test_notes_are_those_of_the_last_rescoring(app: App, tmp_path: Path) -> None:
    first = rescore(app, tmp_path, ask(app, tmp_path, NAMED), NAMED.replace("sky", "sea"))
    saved = app.load_run(app.runs.save_as_new(first).id)
    only = NAMED[: NAMED.index("  - {name: sky")]
    assert rescore(app, tmp_path, saved, only).rescore_notes == []
