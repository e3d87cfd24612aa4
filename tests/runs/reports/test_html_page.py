"""The HTML report: one file, offline, escaped, small, and whole without JavaScript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runs.reports.sample_runs import HOSTILE, finished, parts, support_run, two_cases

from tallymark.runs.comparison import compare, verdict
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reports.html_page import html_report
from tallymark.runs.run import Run
from tallymark.traces import Span, Trace

VOID = {"meta", "br", "input", "img", "link"}
LOADS = {"src", "srcset", "action", "formaction", "data", "poster", "background", "ping"}


class Page(HTMLParser):
    """The tags of a page, its text, and everything that points somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.open: list[str] = []
        self._words: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.statuses: list[str] = []
        self.policy = ""
        self.feed(text)
        self.close()
        self.text = "".join(self._words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        found = {name: value or "" for name, value in attrs}
        self.links += [v for k, v in found.items() if k in LOADS or k.endswith("href")]
        self.handlers += [name for name in found if name.startswith("on")]
        self.statuses += [found["data-status"]] if "data-status" in found else []
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self._words.append(data)


def page(*runs: Run) -> Page:
    found = Page(html_report(runs))
    assert found.open == []
    return found


def four_models() -> list[Run]:
    return [
        support_run("replay/careful", skill=0.95, price=0.004),
        support_run("replay/hasty", skill=0.6, price=0.001, errors=2),
        support_run("a/three", skill=0.8, epochs=2),
        support_run("b/four", price=None),
    ]


def test_it_loads_nothing_from_anywhere() -> None:
    text = html_report(four_models())
    found = Page(text)
    assert all(re.fullmatch(r"#case-\d+", link) for link in found.links)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", text)
    assert found.tags["link"] == found.tags["img"] == found.tags["iframe"] == 0
    assert found.policy.startswith("default-src 'none';")
    assert found.handlers == []


def test_the_score_stands_with_its_formula_and_interval() -> None:
    found = page(two_cases())
    for words in ("2,824.86", "168.33 to 4,879.20", "success_pct / total_cost", "$0.0177", "50.0%"):
        assert words in found.text


def test_each_chart_has_a_table_and_a_label() -> None:
    found = page(*four_models())
    assert found.tags["figure"] == 3
    assert found.text.count("As a table") == 3
    assert html_report(four_models()).count('role="img"><title>') == 3


def test_one_run_has_no_chart_of_score_against_cost() -> None:
    assert page(two_cases()).tags["figure"] == 2


def test_a_run_without_results_still_makes_a_page() -> None:
    record = RunRecord(id="r", suite="s", model="m", status="failed", error="no such model")
    found = page(Run(record, []))
    assert "no such model" in found.text
    assert "undefined" in found.text
    assert found.tags["figure"] == 0


def test_a_case_unfolds_to_its_prompt_answers_checks_and_trace() -> None:
    found = page(support_run(cases=1, skill=-1.0))
    for words in (
        "A customer asks about their refund policy.",
        "I am not sure about refund policy.",
        'the answer does not match "*30 days*"',
        "tool_called",
        "Trace, 3 spans",
        '{"days": 30}',
    ):
        assert words in found.text


def test_without_a_trace_the_prompt_is_the_suites() -> None:
    definition = json.dumps({"evals": [{"name": "qa", "prompt": "Say hi"}, {"prompt": "Say bye"}]})
    record = RunRecord(id="r", suite="s", model="m", definition=definition)
    results = [CaseResult(case=case, status="passed") for case in ("qa[1]", "#2")]
    found = page(Run(record, results))
    assert "Say hi" in found.text
    assert "Say bye" in found.text


@pytest.mark.parametrize(
    "definition", ["", "no json", "[]", '{"evals": [1, null]}', '{"evals": 3}']
)
def test_a_definition_of_any_shape_does_no_harm(definition: str) -> None:
    record = RunRecord(id="r", suite="s", model="m", definition=definition)
    assert page(Run(record, [CaseResult(case="a", status="passed")])).statuses == ["passed"]


def test_cases_that_failed_in_any_run_come_first() -> None:
    assert page(*four_models()[:2]).statuses == sorted(
        page(*four_models()[:2]).statuses, key=["failed", "error", "passed"].index
    )


def test_the_filter_counts_a_case_that_fails_here_and_errs_there_twice() -> None:
    record = RunRecord(id="r", suite="s", model="m")
    runs: list[Run] = [
        Run(record, [CaseResult(case="a", status="failed"), CaseResult(case="b", status="passed")]),
        Run(record, [CaseResult(case="a", status="error"), CaseResult(case="b", status="passed")]),
    ]
    text = html_report(runs)
    assert 'data-has="error failed"' in text
    assert re.search(r"Failed 1\s*</button>", text)
    assert re.search(r"Errors 1\s*</button>", text)


def hostile_run() -> Run:
    """Hostile text wherever text can be."""
    check = CheckResult(kind=HOSTILE, name=HOSTILE, passed=False, reason=HOSTILE, error=HOSTILE)
    span = Span(
        span_id="1",
        name=HOSTILE,
        tool_name=HOSTILE,
        tool_input=HOSTILE,
        error=HOSTILE,
        input=HOSTILE,
    )
    result = CaseResult(
        case=HOSTILE,
        status="failed",
        output=HOSTILE,
        error=HOSTILE,
        checks=(check, replace(check, error=None, parts=(check,))),
        latency=1.0,
        cost=0.1,
        trace=Trace(trace_id=HOSTILE, spans=[span]),
    )
    record = RunRecord(
        id=HOSTILE,
        suite=HOSTILE,
        model=HOSTILE,
        error=HOSTILE,
        score_error=HOSTILE,
        score_formula=HOSTILE,
        definition=json.dumps({"evals": [{"name": HOSTILE, "prompt": HOSTILE}]}),
    )
    return Run(record, [result])


def test_hostile_text_stays_text() -> None:
    tame = page(two_cases(), support_run(cases=1))
    for runs in ([hostile_run()], [hostile_run(), support_run()]):
        found = page(*runs)
        assert found.tags["script"] == tame.tags["script"] == 1
        assert found.tags["img"] == 0
        assert found.handlers == []
        assert "<script>alert(1)</script>" in found.text


def test_an_answer_of_5_mb_is_cut_with_a_note() -> None:
    record, results = parts(two_cases())
    text = html_report([Run(record, [replace(results[0], output="x" * 5_000_000)])])
    assert len(text) < 200_000
    assert "4,900,000 more characters" in text


def test_a_trace_of_many_spans_is_cut_with_a_note() -> None:
    record, results = parts(two_cases())
    trace = Trace(spans=[Span(span_id=str(n), name=f"step {n}") for n in range(500)])
    found = page(Run(record, [replace(results[0], trace=trace)]))
    assert "Trace, 500 spans" in found.text
    assert "460 more spans are left out" in found.text


def test_10_000_cases_make_a_page_that_opens() -> None:
    record, results = parts(support_run("a/one", cases=10_000, skill=0.5))
    text = html_report([Run(record, results), Run(replace(record, model="b/two"), results)])
    assert len(text.encode()) < 6_000_000
    assert text.count('<details class="case"') == 2_000
    assert "lists 2,000 of 10,000 cases" in text
    assert "100 of 10,000 cases, chosen evenly." in text
    assert "are left out to keep this page small" in text


def test_repeated_cases_show_pass_at_k() -> None:
    found = page(support_run(epochs=4))
    assert "pass@4" in found.text
    assert "pass^4" in found.text
    assert "epoch 1" in found.text
    assert "epoch 4" in found.text


def test_many_runs_are_drawn_up_to_a_limit() -> None:
    runs = [support_run(f"m/{n}", cases=4) for n in range(30)]
    found = page(*runs)
    assert "18 more runs not drawn." in found.text
    assert found.text.count("m/29") >= 1


def test_runs_with_different_formulas_carry_a_warning() -> None:
    assert "scored by different formulas" in page(two_cases(), two_cases("success_pct")).text


def test_a_browser_runs_its_script_and_no_other(tmp_path: Path) -> None:
    """In a real browser: the filter appears, the case in the address unfolds, no attack works."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    attack = (
        "<script>document.title='attacked'</script><img src=x onerror=document.title='attacked'>"
    )
    record, results = parts(two_cases())
    runs = [Run(record, [replace(each, output=attack) for each in results])]
    path = tmp_path / "report.html"
    path.write_text(html_report(runs), encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    finished_page = subprocess.run(
        [*command, f"--user-data-dir={tmp_path / 'profile'}", f"{path.as_uri()}#case-1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "<title>my-eval-suite · Tallymark</title>" in finished_page
    assert '<div class="filter">' in finished_page
    assert '<details class="case" data-status="passed" data-has="passed" open="">' in finished_page
    assert '<details class="case" data-status="failed" data-has="failed">' in finished_page


def test_the_sample_is_what_the_runner_would_keep() -> None:
    _, sample = parts(two_cases())
    record, results = parts(finished(RunRecord(id="r", suite="s", model="m"), sample))
    assert (record.score, record.status, len(results)) == (50.0, "completed", 2)


def test_a_comparison_stands_in_the_page_with_its_verdict_and_what_broke() -> None:
    good, bad = support_run(skill=1.0), support_run("x/y", skill=0.0)
    bad.gates = ["worse than the baseline"]
    comparison = compare(good, bad)
    text = html_report([bad], [comparison])
    assert f"<strong>{verdict(comparison).title}:</strong>" in text
    assert f"Broken (passed before): {len(comparison.of_kind('broken'))}" in text
    assert comparison.of_kind("broken")[0].name in text
    assert 'does not pass its gate:</strong> <span class="lines">worse than the baseline<' in text
    assert (
        "\N{MINUS SIGN}" in text.partition('aria-label="Comparison"')[2].partition("</section>")[0]
    )
    assert 'aria-label="Comparison"' not in html_report([bad])
