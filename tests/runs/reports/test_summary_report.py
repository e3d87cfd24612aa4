"""The summary of one run, as people read it in a terminal."""

from __future__ import annotations

from msgspec.structs import replace
from rich.cells import cell_len
from tests.runs.reports.sample_runs import (
    HOSTILE,
    finished,
    parts,
    support_run,
    two_cases,
    unnamed_run,
)

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reports import junit_report, markdown_report, summary, summary_lines
from tallymark.runs.reports.group_report import group_lines
from tallymark.runs.reports.html_page import html_report
from tallymark.runs.reports.summary_report import closing_line
from tallymark.runs.run import Run

EXPECTED = """\
Failed (1)
  ✗ translation-test                                2 checks    1.50 s   $0.0077
      asked: Say good day in Spanish.
      answered: Guten Tag
      match: "*hola*" does not match
      ✓ max_tokens

Passed (1)
  ✓ math-question                                    1 check    0.50 s   $0.0100

How the Score Comes About
  success_pct / total_cost  = 2,824.86
  ├─ success_pct            = 50
  └─ total_cost             = 0.0177

=== Run Summary ===
Score: 2,824.86 (formula: success_pct / total_cost)
95 % Interval: 168.33 to 4,879.20
Success Rate: 50.0% (1 passed, 1 failed)
Total Cost: $0.0177
Latency: avg 1.00 s, max 1.50 s
Run: run-1, completed (my-eval-suite on replay/careful)"""


def test_a_small_run_in_full() -> None:
    assert summary(two_cases()) == EXPECTED


def test_what_was_paid_for_an_answer_that_could_not_be_judged_is_told() -> None:
    results = [
        CaseResult(case="a", status="passed", latency=1.0, cost=0.5),
        CaseResult(case="b", status="error", latency=1.0, cost=0.25, error="no verdict"),
        CaseResult(case="c", status="error", error="no answer"),
    ]
    run = finished(RunRecord(id="r1", suite="s", model="m", score_formula="total_cost"), results)
    assert run.score == 0.5
    lines = summary(run).splitlines()
    assert "Total Cost: $0.5000, and $0.2500 for 1 that could not be scored" in lines
    assert [line.split()[-1] for line in lines if line[2:4] in ("! ", "✓ ")] == [
        *("$0.2500", "-", "$0.5000")
    ]
    assert "was paid $0.2500 for 1 that could not be scored" in markdown_report([run])
    assert "besides $0.2500 for 1 that could not be scored" in html_report([run])
    assert '<property name="unscored_cost" value="0.25" />' in junit_report([run])
    assert any("r1: and $0.2500 for 1" in str(each) for each in group_lines([run, run]))


def test_the_last_line_says_what_can_be_done_where_the_run_is() -> None:
    errors = [CaseResult(case="a", status="error", error="gone")]
    run = finished(RunRecord(id="r1", suite="s", model="m", score_formula="success_pct"), errors)
    assert closing_line([run]).endswith("ask again what did not run: tally run --resume r1")
    assert closing_line([run], "").endswith("details: tally show r1 --case a")
    assert closing_line([run], " --server team").endswith("tally show r1 --case a --server team")


def test_a_failed_case_shows_what_was_asked_and_answered_on_lines_of_80_columns() -> None:
    text = summary(unnamed_run())
    assert "      asked: Who wrote it?\n      answered: (nothing)\n      match: does not" in text
    row, *asked = text[text.index("  ✗ #2") : text.index("      answered: word")].splitlines()
    assert row.startswith("  ✗ #2 Read this letter. Dear all, the parcel…  ")
    assert asked[0].startswith("      asked: Read this letter. Dear all, the parcel is late. the")
    assert (len(asked), asked[-1][-1]) == (2, "…")
    assert "  ! #3[7] Any news of 東京?  " in text
    assert "  ✓ #4  " in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_an_unnamed_case_that_is_repeated_is_called_by_its_prompt() -> None:
    record, (first, *_) = parts(unnamed_run())
    text = summary(Run(record, [first, replace(first, epoch=1)]))
    assert "\n  #1 Who wrote it?  0.0%  " in text[text.index("Repeated Cases") :]


def test_wide_characters_keep_columns_and_lines_within_80() -> None:
    record, (first, *_) = parts(unnamed_run())
    for given in ("東京" * 99, "x" + "東京" * 99, "日本 " * 60):
        text = summary(Run(record, [replace(first, input=given, output=given)]))
        lines = text.splitlines()
        assert max(map(cell_len, lines)) <= 80
        assert {cell_len(line) for line in lines if line.startswith("  ✗ #1")} == {80}


def test_the_documents_example_has_its_true_score() -> None:
    record = RunRecord(
        id="r",
        suite="s",
        model="m",
        score_formula="success_pct / total_cost",
        score=80 / 0.0177,
        metrics={"success_pct": 80.0, "total_cost": 0.0177, "avg_latency": 1.0, "max_latency": 2.0},
    )
    lines = summary(Run(record, [])).splitlines()
    place = lines.index("=== Run Summary ===")
    assert lines[place : place + 4] == [
        "=== Run Summary ===",
        "Score: 4,519.77 (formula: success_pct / total_cost)",
        "Success Rate: 80.0% (0 passed, 0 failed)",
        "Total Cost: $0.0177",
    ]


def test_an_undefined_score_explains_itself() -> None:
    text = summary(support_run(price=None))
    assert "Score: undefined (formula: success_pct / total_cost)\n  because total_cost" in text
    assert "Total Cost: unknown (the cost of 20 of 20 results is not known; set" in text
    assert "└─ total_cost             = undefined" in text


def test_a_score_that_the_suite_put_in_says_why() -> None:
    record, results = parts(support_run(price=None))
    text = summary(Run(replace(record, score=0.0), results))
    assert "Score: 0.00" in text
    assert "set by the suite, because total_cost has no value" in text


def test_a_run_without_results_says_so() -> None:
    text = summary(Run(RunRecord(id="r", suite="s", model="m", total=4), []))
    assert "because the run has no result yet" in text
    assert "Success Rate: unknown (0 passed, 0 failed, 4 not run)" in text


def test_errors_stand_apart_with_their_reason_and_tries() -> None:
    text = summary(support_run(errors=2))
    assert ", 2 errors)" in text
    assert "Errors (2)\n  ! bulk-order " in text
    assert " 3 tries " in text
    assert "error: the provider answered 503 (overloaded) three times" in text


def test_failures_come_before_passes() -> None:
    text = summary(support_run(errors=1))
    assert text.index("Failed (") < text.index("Errors (") < text.index("Passed (")


def test_repeated_cases_have_mean_pass_at_k_and_pass_all_k() -> None:
    results = [
        CaseResult(case=case, epoch=epoch, status="passed" if epoch < passes else "failed")
        for case, passes in (("sure", 4), ("shaky", 2))
        for epoch in range(4)
    ]
    record = RunRecord(id="r", suite="s", model="m", epochs=4)
    lines = summary(finished(record, results)).splitlines()
    at = lines.index("Repeated Cases")
    assert lines[at + 1 : at + 5] == [
        "  case         mean  pass@2  pass^2  pass@4  pass^4",
        "  shaky       50.0%   83.3%   16.7%  100.0%    0.0%",
        "  sure       100.0%  100.0%  100.0%  100.0%  100.0%",
        "  all cases   75.0%   91.7%   58.3%  100.0%   50.0%",
    ]
    assert "  ✗ shaky " in "\n".join(lines)
    assert " 2/4 passed " in "\n".join(lines)


def test_what_each_term_contributes_is_told() -> None:
    text = summary(support_run(formula="0.7 * success_pct - 100 * total_cost"))
    assert "What each term contributes:" in text
    assert "-100 * total_cost" in text


def test_a_single_name_needs_no_explanation() -> None:
    assert "How the Score" not in summary(two_cases("success_pct"))


def test_a_formula_that_no_longer_fits_is_shown_but_not_explained() -> None:
    record, results = parts(two_cases())
    text = summary(
        Run(replace(record, score_formula="gone * 2", metrics={**record.metrics}), results)
    )
    assert "(formula: gone * 2)" in text
    assert "How the Score" not in text


def test_it_is_80_columns_wide_whatever_is_in_it() -> None:
    long = "word " * 60 + "x" * 200
    checks = (CheckResult(kind="match", passed=False, reason=long),)
    results = [CaseResult(case="c" * 300, status="failed", checks=checks, error=long)]
    names = " + ".join(f"{n} * success_pct" for n in range(30))
    record = RunRecord(id="i" * 90, suite=long, model=long, score_formula=names, error=long)
    for text in (summary(Run(record, results)), summary(finished(record, results))):
        assert max(map(len, text.splitlines())) <= 80


def test_many_cases_are_counted_and_not_all_shown() -> None:
    text = summary(support_run(cases=300, skill=0.5), most=3)
    assert text.count("\n  ✗ ") == 3
    assert text.count("\n  and ") == 2


def test_of_many_reasons_and_repeated_cases_some_are_shown() -> None:
    checks = tuple(CheckResult(kind=f"check{n}", passed=False, reason="no") for n in range(8))
    results = [
        CaseResult(case=case, epoch=epoch, status="failed", checks=checks)
        for case in "abc"
        for epoch in range(2)
    ]
    text = summary(Run(RunRecord(id="r", suite="s", model="m", epochs=2), results), most=2)
    assert "      check4: no\n      and 3 more reasons" in text
    assert "and 1 more case" in text


def test_hostile_text_cannot_move_the_cursor() -> None:
    checks = (CheckResult(kind=HOSTILE, passed=False, reason=HOSTILE),)
    results = [CaseResult(case=HOSTILE, status="failed", checks=checks, output=HOSTILE)]
    text = summary(Run(RunRecord(id=HOSTILE, suite=HOSTILE, model=HOSTILE, error=HOSTILE), results))
    assert not {"\x1b", "\x00"} & set(text)


def test_what_failed_and_what_passed_has_a_colour() -> None:
    lines = summary_lines(Run(*parts(support_run(errors=1))))
    assert {"red", "green", "yellow"} <= {line.style for line in lines}


def test_a_row_of_several_epochs_has_the_means_of_both_latency_and_cost() -> None:
    results = [
        CaseResult(case="a", epoch=epoch, status="failed", latency=2.0, cost=0.5)
        for epoch in (1, 2, 3)
    ]
    run = finished(RunRecord(id="r1", suite="s", model="m", score_formula="total_cost"), results)
    (row,) = [line for line in summary(run).splitlines() if line.startswith("  ✗ a")]
    assert row.split()[-5:] == ["0/3", "passed", "2.00", "s", "$0.5000"]


def test_the_last_line_says_what_did_not_run() -> None:
    passed = [CaseResult(case="a", status="passed")]
    record, results = parts(finished(RunRecord(id="r1", suite="s", model="m"), passed))
    cut = Run(replace(record, total=3, status="cancelled", error="the budget is spent"), results)
    said = "s: 100.00, 1 passed, 2 of 3 not run (the budget is spent)"
    assert closing_line([cut]) == f"{said}; continue with a larger budget: tally run --resume r1"
    paid = [CaseResult(case="a", status="passed", cost=0.25)]
    record, results = parts(finished(RunRecord(id="r1", suite="s", model="m"), paid))
    cut = Run(replace(record, total=3, status="cancelled", error="the budget is spent"), results)
    assert closing_line([cut]).endswith("tally run --resume r1 --budget 0.5")
    whole = Run(replace(record, id="r2", score=50.0), results)
    assert closing_line([whole, cut]).startswith("2 runs, the best by m: 100.00; 1 run cut short")


def test_the_last_line_proposes_a_case_that_failed() -> None:
    failed = [CaseResult(case="a", status="passed"), CaseResult(case="b c", status="failed")]
    run = finished(RunRecord(id="r1", suite="s", model="m"), failed)
    assert closing_line([run]).endswith("1 of 2 failed; details: tally show r1 --case 'b c'")
