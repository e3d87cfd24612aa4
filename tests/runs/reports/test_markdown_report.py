"""The Markdown report: a table that nothing breaks, and failures in folded blocks."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.runs.reports.sample_runs import HOSTILE, parts, support_run, two_cases, unnamed_run

from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reports import markdown_report
from tallymark.runs.run import Run


def test_a_small_run_in_full() -> None:
    assert (
        markdown_report([two_cases()])
        == """\
## `my-eval-suite`

| Model | Score | 95 % interval | Success | Cost | Avg latency | Errors |
|:--|--:|:-:|--:|--:|--:|--:|
| `replay/careful` | **2,824.86** | 168.33 to 4,879.20 | 50.0% (1/2) | $0.0177 | 1.00 s | 0 |

Score: `success_pct / total_cost`


### `replay/careful`: 1 failed

<details><summary>❌ <code>translation-test</code></summary>
<ul>
<li><code>match</code>: <code>&quot;*hola*&quot; does not match</code></li>
</ul>
asked:<pre>Say good day in Spanish.</pre>
answered:<pre>Guten Tag</pre>
</details>
"""
    )


def test_an_unnamed_case_is_called_by_its_prompt_and_long_texts_are_cut() -> None:
    text = markdown_report([unnamed_run()])
    assert "<summary>❌ <code>#1 Who wrote it?</code></summary>" in text
    assert "<code>#2 Read this letter. Dear all, the parcel is late." in text
    assert "asked:<pre>Read this letter.&#10;&#10;Dear all,&#10;the parcel" in text
    assert "word … (500 more characters)</pre>" in text
    assert "<summary>⚠️ <code>#3[7] Any news of 東京?</code></summary>" in text


def test_every_run_has_a_row() -> None:
    text = markdown_report([support_run("a/one"), support_run("b/two", price=None, errors=1)])
    assert "| `a/one` | **" in text
    assert "| `b/two` | **undefined** | - |" in text
    assert "- `b/two` has no score: `total_cost has no value;" in text
    assert "1 could not run" in text


def test_runs_of_one_model_are_told_apart_by_their_ids() -> None:
    record, results = parts(two_cases())
    text = markdown_report([two_cases(), Run(replace(record, id="again"), results)])
    assert f"| `replay/careful` (`{record.id}`) | **" in text
    assert "| `replay/careful` (`again`) | **" in text
    assert "### `replay/careful` (`again`): 1 failed" in text


def test_formulas_that_differ_are_all_named() -> None:
    one, (record, results) = two_cases(), parts(two_cases("success_pct"))
    text = markdown_report([one, Run(replace(record, model="replay/hasty"), results)])
    assert "- `replay/careful` is scored by `success_pct / total_cost`" in text
    assert "- `replay/hasty` is scored by `success_pct`" in text


def test_a_run_that_broke_off_says_so() -> None:
    record, results = parts(two_cases())
    text = markdown_report(
        [Run(replace(record, status="cancelled", total=9, error="budget"), results)]
    )
    assert "- `replay/careful` was cut short: `7 of 9 not run (budget)`" in text
    assert "(1/2 of 9)" in text


@pytest.mark.parametrize("name", ["a|b", "a`b", "``", "<b>x</b>", "*x*", "a\nb|c", "[x](http://h)"])
def test_a_models_name_cannot_break_the_table(name: str) -> None:
    record, results = parts(two_cases())
    lines = markdown_report([Run(replace(record, model=name), results)]).splitlines()
    row = lines[4]
    # As GitHub does it: a pipe ends a cell unless a backslash stands before it.
    assert len(re.split(r"(?<!\\)\|", row)) == 9
    first = re.split(r"(?<!\\)\|", row)[1].strip()
    span = re.fullmatch(r"(`+)(.+?)\1", first)
    assert span is not None
    assert span[1] not in span[2]


def test_answers_cannot_add_markup() -> None:
    record = RunRecord(id="r", suite="s", model="m")
    output = f"{HOSTILE}\n\n</pre></details>\n\n| a | b |\n@someone # heading"
    result = CaseResult(case=HOSTILE, status="failed", output=output, error=HOSTILE)
    text = markdown_report([Run(record, [result])])
    block = text[text.index("<details>") :]
    assert "\n\n" not in block.strip()
    assert set(re.findall(r"</?\w+", block)) == {
        "<details", "</details", "<summary", "</summary", "<code", "</code",
        "<ul", "</ul", "<li", "</li", "<pre", "</pre",
    }  # fmt: skip
    assert block.count("</details") == 1


def test_a_large_run_stays_below_a_megabyte() -> None:
    record, results = parts(support_run(cases=400, skill=-1.0))
    long = [replace(result, output="<" * 5_000) for result in results]
    text = markdown_report([Run(record, long), Run(record, long)])
    assert len(text.encode()) < 1_000_000
    assert text.count("<details>") == 50
    assert "And 350 more." in text
    assert "And 400 more." in text
