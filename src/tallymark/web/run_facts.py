"""Facts about runs and cases in words, and the forms in which people score cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tallymark.charts.frame import Chart
from tallymark.charts.sparkline import draw_sparkline
from tallymark.errors import InvalidInput
from tallymark.runs.comparison import RegressionRule
from tallymark.runs.problems import describe_check, describe_unrun, list_problems
from tallymark.runs.record import NOTES_TAG, CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.reviews import VERDICT
from tallymark.service.callers import REPORTERS, name_author
from tallymark.service.runs import SuiteHistory
from tallymark.text import clean_line, format_count, format_money, format_score
from tallymark.web.page_request import PageRequest

_OWN_TAGS = {"folder", "limit", "epochs", "chosen", "door", "prompt", "rescored_from", NOTES_TAG}
"""Internal tags of a run."""


def find_unrun(record: RunRecord) -> str | None:
    """Describe the part of a finished run that was not run, and why."""
    return None if record.status in ("queued", "running") else describe_unrun(record)


def list_labels(record: RunRecord) -> dict[str, str]:
    """List the tags that the suite or the command gave a run."""
    known = {key: value for key, value in record.tags.items() if key not in _OWN_TAGS}
    return {
        key: clean_line(str(value), 40)
        for key, value in known.items()
        if isinstance(value, str | int | float | bool)
    }


def judge_change(change: float | None, score: float | None) -> str:
    """Return `bad` for a loss beyond the tolerance, `good` for such a gain, else `quiet`."""
    before = (score or 0.0) - (change or 0.0)
    if not change or abs(change) <= RegressionRule().allowed_loss(before):
        return "quiet"
    return "good" if change > 0 else "bad"


def judge_suite(history: SuiteHistory) -> str:
    """Return the tone of a suite's last change."""
    newest = history.newest
    return "quiet" if find_unrun(newest) else judge_change(history.change, newest.score)


def draw_history(history: SuiteHistory) -> Chart:
    """Draw the scores of a suite as a sparkline."""
    return draw_sparkline(f"Scores of {history.suite}", history.scores, format_score)


class NumberOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Explanations of the numbers of a run."""

    score: str
    interval: str
    passed: str
    cost: str
    latency: str


def explain_numbers(record: RunRecord) -> NumberOrigins:
    """Explain the fields, results and formula behind the numbers."""
    ran = format_count(record.passed + record.failed, "result")
    errors = (
        f" {format_count(record.errors, 'error')} could not run and count in neither."
        if record.errors
        else ""
    )
    judges = record.metrics.get("judge_cost")
    return NumberOrigins(
        score=f"The formula {clean_line(record.score_formula, 200)} with the numbers of {ran} that"
        " ran. Its parts are below.",
        interval="If the run were repeated with new cases like these, its score would"
        f" lie in it 95 times of 100. Found from the same {ran}: they are resampled 2,000 times,"
        " and the formula is computed on each draw.",
        passed=f"Results whose every check passed (status), of {ran} that ran.{errors}",
        cost=f"total_cost: the field cost of {ran} added up, by the price of the model's tokens."
        " Unknown where the price of one of them is."
        + (" The cost of errors is not included; see their rows." if record.errors else "")
        + (f" Judges cost {format_money(judges)}, not included." if judges else ""),
        latency="avg_latency: the mean of the field latency, the time of the request itself, of"
        f" {ran}. Percentiles (p50, p95, p99) are interpolated.",
    )


_STATISTICS = {"max": "the largest", "min": "the smallest", "avg": "the mean", "total": "the sum"}
_MEANINGS = {
    "success_pct": "results that passed, in percent of those that ran",
    "error_pct": "results that could not run, in percent of all",
    "judge_cost": "cost of judges in dollars; not part of other costs",
    "input_tokens": "tokens sent, of all results that ran",
    "output_tokens": "tokens answered, of all results that ran",
    "total_tokens": "tokens sent and answered",
    **{
        f"{statistic}_{measure}": f"{words} of the field {measure} of results that ran"
        for statistic, words in _STATISTICS.items()
        for measure in ("latency", "cost")
    },
    **{
        f"p{percent}_latency": f"{percent} % of the results took no longer"
        for percent in (50, 95, 99)
    },
}


def explain_metric(name: str, metrics: Mapping[str, float | None]) -> str:
    """Explain a metric of a run."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    for ending, measure in (("_latency", "latency"), ("_cost", "cost")):
        if name.endswith(ending) and (case := name.removesuffix(ending)) in metrics:
            return f"the mean {measure} of the case {clean_line(case, 60)}"
    if f"{name}_latency" in metrics:
        return "the share of this case's results that passed"
    return "the mean of this scorer over the results that it scored"


class CheckFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A check for people to read."""

    title: str
    outcome: CaseStatus
    reason: str
    origin: str
    """Kind of check and version of the scorer."""
    depth: int = 0


def explain_result(result: CaseResult) -> str:
    """Explain why a result did not pass; empty if it did."""
    problems = list_problems(result)
    return clean_line(": ".join(filter(None, problems[0])) if problems else "", 300)


def list_checks(checks: tuple[CheckResult, ...], depth: int = 0) -> Iterator[CheckFacts]:
    """List all checks; alternatives of an `or` are nested."""
    for check in checks:
        title, reason = describe_check(check)
        done = check.error is None
        kind = check.kind if check.kind != title.split(" ")[0] else ""
        version = f"version {check.version[:12]}" if check.version else ""
        yield CheckFacts(
            title=clean_line(title, 200),
            outcome="error" if not done else "passed" if check.passed else "failed",
            reason=reason[:8_000],
            origin=", ".join(filter(None, (kind, version))),
            depth=depth,
        )
        yield from list_checks(check.parts, depth + 1)


def find_author(request: PageRequest) -> str | None:
    """Return the author of the visitor's scores; None if they may not give any."""
    return name_author(request.caller) if request.caller.role in REPORTERS else None


def give_score(request: PageRequest, run: str, case: str, epoch: int) -> None:
    """Score a case with the values of the form."""
    request.visitor.require_runs()
    name = request.form.get("name") or VERDICT
    request.tally.scores.give(run, case, name=name, epoch=epoch, **_read_given(request))


def change_score(request: PageRequest) -> None:
    """Replace a score with the values of the form."""
    request.visitor.require_runs()
    request.tally.scores.change(request.form.get("score"), **_read_given(request))


def withdraw_score(request: PageRequest) -> None:
    """Withdraw the score that the form names."""
    request.visitor.require_runs()
    request.tally.scores.withdraw(request.form.get("score"))


def _read_given(request: PageRequest) -> dict[str, Any]:
    form = request.form
    text = form.get("value")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no number from 0 to 1", hint="as in 0.5") from None
    return {"value": value, "label": form.get("label") or None, "comment": form.get("comment")}
