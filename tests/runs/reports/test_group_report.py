"""What a command of several runs ends with."""

from __future__ import annotations

import re

from tests.runs.test_score_matrix import GRID, cell

from tallymark.runs.reports.group_report import group_lines
from tallymark.runs.reports.html_page import html_report
from tallymark.runs.reports.json_report import json_report
from tallymark.runs.reports.markdown_report import markdown_report
from tallymark.runs.run import Run


def told(runs: list[Run]) -> str:
    return "\n".join(str(part) for part in group_lines(runs))


def test_prompts_and_models_are_one_table() -> None:
    text = told(GRID)
    assert (
        text.partition("=== Prompts and Models ===\n")[2]
        == """\
SCORE        a        b
p        25.00  * 75.00
q      * 75.00     0.00

RUN    PROMPT  MODEL    SCORE   95 % INTERVAL  SUCCESS     COST  AVG LATENCY
r-p-a  p       a        25.00   1.25 to 75.77    25.0%  $0.4000       1.00 s
r-p-b  p       b      * 75.00  24.23 to 98.75    75.0%  $0.4000       1.00 s
r-q-a  q       a      * 75.00  24.23 to 98.75    75.0%  $0.4000       1.00 s
r-q-b  q       b         0.00   0.00 to 60.24     0.0%  $0.4000       1.00 s
* the highest score; the 95 % intervals say how sure that is"""
    )
    head = text.partition("=== Prompts and Models ===\n")[0]
    assert head.startswith("=== Comparison ===\nrun    model  score  difference")
    assert "\nr-p-b  b · p  75.00      +50.00" in head
    assert "adjusted for 3\n  comparisons (Holm)" in head


def test_two_runs_are_compared_in_full_and_several_models_are_the_same_table() -> None:
    text = told([cell(None, "a", 1), cell(None, "b", 3)])
    assert "First:  r-None-a on a (1 passed, 3 failed)" in text
    assert (
        text.partition("=== Runs ===\n")[2]
        == """\
RUN       MODEL    SCORE   95 % INTERVAL  SUCCESS     COST  AVG LATENCY
r-None-a  a        25.00   1.25 to 75.77    25.0%  $0.4000       1.00 s
r-None-b  b      * 75.00  24.23 to 98.75    75.0%  $0.4000       1.00 s
* the highest score; the 95 % intervals say how sure that is"""
    )


def test_a_run_without_results_is_in_the_table_and_not_compared() -> None:
    empty = Run(cell("q", "a", 1).record, [])
    text = told([GRID[0], empty])
    assert "Comparison" not in text
    assert "r-q-a  q" in text


def test_files_have_the_matrix_too() -> None:
    assert "| Prompt | `a` | `b` |\n|:--|--:|--:|\n| `p` | 25.00 | **75.00** |" in markdown_report(
        GRID
    )
    assert '"scores": [\n' in json_report(GRID)
    page = re.sub(r"\s+<", "<", html_report(GRID))
    assert '<th scope="col">Prompt</th><th scope="col">a</th><th scope="col">b</th>' in page
    assert page.count("<b>75.00 ★</b>") == 2
    alone = GRID[:1]
    assert "Prompt |" not in markdown_report(alone)
    assert '"matrix"' not in json_report(alone)
    assert "★" not in html_report(alone)


def test_cases_by_model_come_first_where_no_summary_stands_before() -> None:
    runs = [cell(None, "a", 1), cell(None, "b", 3)]
    text = "\n".join(map(str, group_lines(runs, brief=True)))
    assert text.startswith(
        """\
=== Cases ===
case        a      b
"""
    )
    assert "\npassed    1/4    3/4\nscore   25.00  75.00\n\na\n  ✗ " in text
