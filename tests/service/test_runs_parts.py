"""Runs of some cases, and runs with each of several prompts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.service.test_suite_runs import Silent

from tallymark.errors import InvalidInput
from tallymark.runs.comparison import RegressionVerdict, compare, verdict
from tallymark.runs.problems import name_model
from tallymark.runs.run import Run
from tallymark.service.app import App
from tallymark.service.resources import Resources
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.chosen_cases import CaseChoice
from tallymark.suites.suite_evaluation import RunLimits
from tallymark.suites.suite_file import load_suite

SUITE = """
metadata: {name: sums, model: echo/x, threads: 1, pricing: {input: 1000000, output: 1000000}}
evals:
  - name: four
    prompt: 2 + 2 is 4
    tags: [easy]
    checks: [{match: "*4*"}]
  - name: six
    prompt: 3 + 3 is 7
    checks: [{match: "*6*"}]
  - name: row
    cases_from: rows.csv
    tags: [easy]
    prompt: "item {{var('n')}}"
    checks: [{match: "*item*"}]
score: {formula: four * 10 + row, undefined: 99}
"""
PROMPTS = """
metadata: {name: cities, model: [echo/a, echo/b], threads: 1, pricing: {input: 1e6, output: 1e6}}
prompts:
  bare: "{{var('question')}}"
  led: {file: led.txt, system_prompt: "Be {{var('mood')}}."}
evals:
  - name: paris
    vars: {question: "The capital of France?", mood: kind}
    checks: [{match: "*Paris*"}]
  - name: own
    prompt: mine
    checks: [{match: mine}]
  - name: row
    cases_from: rows.csv
    vars: {question: "Nothing", mood: kind}
    checks: [{match: "*{{var('n')}}*"}]
score: paris * 10 + own + row
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(str(tmp_path / "tally.db"))
    yield app
    app.close()


def run(app: App, tmp_path: Path, options: RunOptions, text: str = SUITE) -> list[Run]:
    (tmp_path / "rows.csv").write_text("n\n1\n2\n3\n")
    (tmp_path / "led.txt").write_text("It is Paris, or {{var('n')}}.\n")
    (tmp_path / "suite.yaml").write_text(text)
    return app.runs.run(load_suite(tmp_path / "suite.yaml"), [], options, Silent())


def choose(*only: str, tag: tuple[str, ...] = (), **limits: int) -> RunOptions:
    return RunOptions(RunLimits(**limits), choice=CaseChoice(only, tag))  # type: ignore[arg-type]


def keys(run: Run) -> list[str]:
    return list(run.cases)


def test_only_what_is_chosen_is_asked_and_counted(app: App, tmp_path: Path) -> None:
    (found,) = run(app, tmp_path, choose("four", "row[2]", epochs=2))
    assert keys(found) == ["four", "row[2]"]
    assert (found.record.total, found.record.status, found.score) == (4, "completed", 11)
    assert found.part == "2 of 5, chosen by --only four --only 'row[2]'"
    kept = app.load_run(found.record.id)
    assert (kept.part, keys(kept)) == (found.part, keys(found))
    (tagged,) = run(app, tmp_path, choose(tag=("easy",), cases=2))
    assert keys(tagged) == ["four", "row[1]"]
    assert tagged.part == "2 of 5, chosen by --tag easy --limit 2"


def test_a_score_that_needs_what_was_not_chosen_is_undefined(app: App, tmp_path: Path) -> None:
    """Also where the suite sets a score for a formula without a value: that is not this."""
    (part,) = run(app, tmp_path, choose("row", "six"))
    why = "four has no value; the eval 'four' was not chosen"
    assert (part.score, part.record.score_error) == (None, why)
    assert (part.record.metrics["row"], part.record.metrics["four"]) == (1, None)
    _, again = app.runs.rescore_run(part.record.id, formula="four_cost + row")
    assert again.record.score_error is not None
    assert "the eval 'four' was not chosen" in again.record.score_error
    assert app.runs.rescore_run(part.record.id, formula="row * 2")[1].score == 2


def test_a_part_is_compared_over_what_both_ran(app: App, tmp_path: Path) -> None:
    (whole,) = run(app, tmp_path, RunOptions())
    (part,) = run(app, tmp_path, choose("row"))
    found = compare(whole, part)
    assert (found.shared, found.score.second) == (3, None)
    assert found.success_pct.first == found.success_pct.second == 100
    # The score is not lost: nobody asked for it. So cases decide.
    said = "the score needs cases that were not chosen (four), and no case that passed fails now"
    assert verdict(found) == RegressionVerdict("inconclusive", True, said)
    (worse,) = run(app, tmp_path, choose("row"), SUITE.replace("*item*", "*item 1*"))
    assert verdict(compare(whole, worse)).outcome == "worse"


def test_a_limit_is_told_as_a_choice(app: App, tmp_path: Path) -> None:
    (cut,) = run(app, tmp_path, RunOptions(RunLimits(cases=2)))
    assert cut.part == "2 of 5, chosen by --limit 2"
    assert cut.record.score_error == "row has no value; the eval 'row' was not chosen"
    (all_of_it,) = run(app, tmp_path, RunOptions(RunLimits(cases=50)))
    assert all_of_it.part is None


def test_a_run_of_a_part_goes_on_with_that_part(app: App, tmp_path: Path) -> None:
    choice = CaseChoice(("r*", "four"), failed_of="r1", failed=("row[1]", "row[3]", "four"))
    options = RunOptions(RunLimits(budget=1e-9), choice=choice)
    (cut,) = run(app, tmp_path, options)
    assert (cut.record.status, len(cut.results), cut.record.total) == ("cancelled", 1, 3)
    done = app.runs.resume(cut.record.id, RunOptions(), Silent())
    assert keys(done) == ["four", "row[1]", "row[3]"]
    assert (done.record.status, done.part) == ("completed", cut.part)


def test_a_suites_own_tags_are_no_choice(app: App, tmp_path: Path) -> None:
    text = SUITE.replace("threads: 1", "threads: 1, tags: {chosen: by me}")
    (found,) = run(app, tmp_path, RunOptions(), text)
    assert found.record.tags["chosen"] == "by me"
    assert found.part is None
    assert app.runs.resume(found.record.id, RunOptions(), Silent()).record.total == 5


def test_prompts_and_models_make_a_run_each(app: App, tmp_path: Path) -> None:
    text = PROMPTS.replace("It is Paris, or ", "")
    runs = run(app, tmp_path, RunOptions(values={"n": "9"}), text)
    assert [name_model(each.record) for each in runs] == [
        "echo/a · bare",
        "echo/b · bare",
        "echo/a · led",
        "echo/b · led",
    ]
    assert len({each.record.group for each in runs}) == 1
    assert len({each.record.definition_hash for each in runs}) == 1
    assert [each.score for each in runs] == [1, 1, 12, 12]
    first, _, led, _ = runs
    assert led.cases["row[2]"].results[0].output == "It is Paris, or 2."
    assert first.cases["own"].results[0].output == led.cases["own"].results[0].output == "mine"
    assert compare(first, led).shared == 5
    assert [each.id for each in app.store.runs(limit=1)] == [runs[-1].record.id]


def test_some_prompts_and_some_cases(app: App, tmp_path: Path) -> None:
    options = RunOptions(values={"n": "9"}, choice=CaseChoice(("paris", "own")), prompts=("l*",))
    runs = run(app, tmp_path, options, PROMPTS)
    assert [name_model(each.record) for each in runs] == ["echo/a · led", "echo/b · led"]
    assert [keys(each) for each in runs] == [["paris", "own"]] * 2


def test_a_run_goes_on_with_its_prompt(app: App, tmp_path: Path) -> None:
    """As it was, even where the file of the prompt has changed since."""
    options = RunOptions(RunLimits(budget=1e-9), values={"n": "9"})
    cut = run(app, tmp_path, options, PROMPTS)[2]
    assert (cut.record.tags["prompt"], cut.record.status) == ("led", "cancelled")
    (tmp_path / "led.txt").write_text("Nothing")
    done = app.runs.resume(cut.record.id, RunOptions(values={"n": "9"}), Silent())
    assert (done.record.status, done.score) == ("completed", 12)
    assert done.cases["row[3]"].results[0].output == "It is Paris, or 3."


def test_a_run_is_checked_again_by_the_suite_with_its_prompt(app: App, tmp_path: Path) -> None:
    options = RunOptions(values={"n": "9"})
    led = run(app, tmp_path, options, PROMPTS)[2]
    other = load_suite(tmp_path / "suite.yaml")
    suite = app.runs.resolve_like(led.record, other, options)
    assert app.runs.rescore_run(led.record.id, suite=suite)[1].score == 12


def test_a_variable_that_a_prompt_lacks_leaves_no_run_behind(app: App, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the variable 'n' has no value for the prompt 'led'"):
        run(app, tmp_path, RunOptions(), PROMPTS)
    assert not app.store.exists


OWN_VALUE = """
metadata: {name: tones, model: echo/x, vars: {tone: formal}}
evals: [{name: a, prompt: "Be {{var('tone')}}", checks: [{match: "Be casual"}]}]
"""


def test_what_the_caller_gives_wins_over_the_suites_own_value(app: App, tmp_path: Path) -> None:
    assert run(app, tmp_path, RunOptions(), OWN_VALUE)[0].record.passed == 0
    given = RunOptions(values={"tone": "casual"})
    assert run(app, tmp_path, given, OWN_VALUE)[0].record.passed == 1
    app.store.set_var("tone", "casual")
    assert run(app, tmp_path, RunOptions(), OWN_VALUE)[0].record.passed == 1


def test_the_environment_changes_no_value_that_the_suite_has(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("tone", "casual")
    assert run(app, tmp_path, RunOptions(), OWN_VALUE)[0].record.passed == 0


def test_a_run_that_goes_on_refuses_a_variable_that_its_suite_never_asks_for(
    app: App, tmp_path: Path
) -> None:
    (done,) = run(app, tmp_path, RunOptions(), OWN_VALUE)
    options = RunOptions(values={"tnoe": "casual"}, named=("tnoe",))
    with pytest.raises(InvalidInput, match="--var: the suite asks for no variable 'tnoe'; did you"):
        app.runs.resume(done.record.id, options, Silent())


def test_finished_runs_are_compared_once_and_those_that_go_on_each_time(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n\n1\n")
    (tmp_path / "suite.yaml").write_text(SUITE)
    app = App(str(tmp_path / "tally.db"))
    definition = load_suite(tmp_path / "suite.yaml")
    names = [app.runs.run(definition, [], RunOptions(), Silent())[0].record.id for _ in range(2)]
    runs = Resources.over(app.store).runs
    first = runs.load_compared(names)
    assert runs.load_compared(names) is first
    assert runs.load_compared(names, "success_pct") is not first
    app.store.update_run(names[1], status="running")
    assert runs.load_compared(names) is not first
    app.close()
