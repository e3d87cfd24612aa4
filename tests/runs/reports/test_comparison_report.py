"""Comparisons as people read them in a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from tests.runs.reports.sample_runs import finished, parts, support_run

from tallymark.runs.comparison import compare, compare_all
from tallymark.runs.record import CaseResult, CaseStatus, RunRecord
from tallymark.runs.reports.comparison_report import comparison_text, comparisons_lines
from tallymark.runs.run import Run


def run(name: str, outcomes: str) -> Run:
    """A run whose cases a, b, c... passed (`+`), failed (`-`) or could not run (`!`)."""
    words: dict[str, CaseStatus] = {"+": "passed", "-": "failed", "!": "error"}
    results = [
        CaseResult(case=chr(97 + n), status=words[mark], latency=1.0, cost=0.01)
        for n, mark in enumerate(outcomes)
    ]
    record, _ = parts(finished(RunRecord(id=name, suite="s", model=f"m/{name}"), results))
    return Run(record, results)


def test_two_runs_in_full() -> None:
    comparison = compare(run("old", "++++----++++"), run("new", "--++---+++!+"))
    assert (
        comparison_text(comparison)
        == """\
=== Comparison ===
First:  old on m/old (8 passed, 4 failed)
Second: new on m/new (6 passed, 5 failed, 1 error)
Score:  success_pct

               first   second  difference    95 % interval  p worse
Score          63.64    54.55       -9.09  -41.29 to 25.82     0.31
Total cost   $0.1100  $0.1100          $0                -     0.50
Avg latency   1.00 s   1.00 s         0 s                -     0.50
over the 11 cases that both ran; p worse: chance of a drop this large if nothing
  changed

Broken (passed before): 2
  a
  b

Errors now (ran before): 1
  k

Fixed (passes now): 1
  h

Unchanged: 8
Inconclusive: the score fell by 9.09, more than the tolerance of 0.64, which may
  be chance (p 0.31); run more cases or epochs
Careful: 1 of 12 results of new are errors and left out: if the hard cases fail
  to run, the run looks better than it is"""
    )


def test_a_success_rate_is_told_beside_any_other_score() -> None:
    text = comparison_text(compare(support_run("a/one"), support_run("b/two", skill=0.5)))
    assert "\nSuccess rate " in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_missing_score_says_why() -> None:
    text = comparison_text(compare(support_run("a/one"), support_run("b/two", price=None)))
    assert "two-1 has no score: total_cost has no value" in text
    assert "Regression: the second run has no score to compare, the first has one" in text


def test_repeated_cases_show_how_often_they_passed() -> None:
    text = comparison_text(compare(support_run(epochs=1), support_run("x/y", skill=0.3, epochs=3)))
    assert "1/1 → 0/3" in text


def test_only_some_cases_of_a_kind_are_named() -> None:
    text = comparison_text(compare(run("old", "+" * 12), run("new", "-" * 12)), most=2)
    assert "  and 10 more" in text


def test_several_runs_make_a_table_against_the_first() -> None:
    found = compare_all(
        [run("old", "++++----++++"), run("mid", "++++---+++++"), run("new", "-" * 12)]
    )
    assert (
        "\n".join(map(str, comparisons_lines(found)))
        == """\
run  model  score  difference     95 % interval  p worse  broken  fixed
old  m/old  66.67           -                 -        -       -      -
mid  m/mid  75.00       +8.33   -14.21 to 31.13     0.75       0      1
new  m/new   0.00      -66.67  -88.39 to -24.03    0.003       8      0"""
    )


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_table_of_several_runs_fits_into_the_terminal(columns: int) -> None:
    runs = [run(f"{name}-of-a-rather-long-name", "+-+-") for name in ("old", "mid", "new")]
    found = compare_all(runs, formula="7000000 * success_pct")
    screen = StringIO()
    Console(file=screen, width=columns).print(next(comparisons_lines(found)))
    lines = screen.getvalue().split("\n")
    assert max(len(line.rstrip()) for line in lines) <= columns
    assert lines[0].split()[:4] == ["run", "model", "score", "difference"]
    assert all(each.record.id in screen.getvalue() for each in runs)
