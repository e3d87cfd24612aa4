"""What pages tell of runs and of cases, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tallymark.runs.problems import (
    describe_check,
    describe_unrun,
    list_problems,
    name_case,
    name_model,
)
from tallymark.runs.record import (
    NOTES_TAG,
    CaseResult,
    CaseStatus,
    CheckResult,
    RunRecord,
    RunStatus,
)
from tallymark.runs.run import read_notes
from tallymark.text import clean_line, format_count, format_money

_OWN_TAGS = {"folder", "limit", "epochs", "chosen", "door", "prompt", "rescored_from", NOTES_TAG}
"""What a run keeps to go on with, besides its suite's tags."""


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run as lists show it."""

    id: str
    suite: str
    model: str
    """With its prompt where the suite has several."""
    status: RunStatus
    created_at: float
    seconds: float | None
    score: float | None
    score_error: str | None
    low: float | None
    high: float | None
    passed: int
    failed: int
    errors: int
    total: int
    cost: float | None
    latency: float | None
    formula: str
    group: str | None
    door: str | None
    tags: dict[str, str]
    error: str | None
    unrun: str | None
    """How much of a run that ended was never asked, and why."""
    rescore_notes: list[str]

    @property
    def ran(self) -> int:
        return self.passed + self.failed

    @property
    def expected(self) -> int:
        """Results that it has or should have."""
        return max(self.total, self.finished)

    @property
    def finished(self) -> int:
        return self.passed + self.failed + self.errors


def describe_run(record: RunRecord) -> RunFacts:
    """What a record tells."""
    ends = record.finished_at, record.started_at
    return RunFacts(
        id=record.id,
        suite=record.suite,
        model=name_model(record),
        status=record.status,
        created_at=record.created_at,
        seconds=None if None in ends else (ends[0] or 0) - (ends[1] or 0),
        score=record.score,
        score_error=record.score_error,
        low=record.score_low,
        high=record.score_high,
        passed=record.passed,
        failed=record.failed,
        errors=record.errors,
        total=record.total,
        cost=record.metrics.get("total_cost"),
        latency=record.metrics.get("avg_latency"),
        formula=record.score_formula,
        group=record.group,
        door=record.tags.get("door"),
        tags=_read_tags(record.tags),
        error=record.error,
        unrun=None if record.status in ("queued", "running") else describe_unrun(record),
        rescore_notes=read_notes(record),
    )


def _read_tags(tags: dict[str, Any]) -> dict[str, str]:
    known = {key: value for key, value in tags.items() if key not in _OWN_TAGS}
    return {
        key: clean_line(str(value), 40)
        for key, value in known.items()
        if isinstance(value, str | int | float | bool)
    }


class NumberOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers of a run come from, a sentence or two each."""

    score: str
    interval: str
    passed: str
    cost: str
    latency: str


def explain_numbers(record: RunRecord) -> NumberOrigins:
    """In words: which field, which results, which formula."""
    ran = format_count(record.passed + record.failed, "result")
    errors = (
        f" {format_count(record.errors, 'error')} could not run and count in neither."
        if record.errors
        else ""
    )
    judges = record.metrics.get("judge_cost")
    return NumberOrigins(
        score=f"The formula {clean_line(record.score_formula, 200)} with the numbers of {ran} that"
        " ran. Each part of it is taken apart below.",
        interval="Were the agent asked again, with new cases like these, its score would come to"
        f" lie in it 95 times of 100. Found from the same {ran}: their luck is drawn 2,000 times,"
        " and the formula is worked out on each draw.",
        passed=f"Results whose every check passed (status), of {ran} that ran.{errors}",
        cost=f"total_cost: the field cost of {ran} added up, by the price of the model's tokens."
        " Unknown where the price of one of them is."
        + (" What errors cost is not in it: see their rows." if record.errors else "")
        + (f" Judges took {format_money(judges)}, which is not in it." if judges else ""),
        latency="avg_latency: the mean of the field latency, the time of the request itself, of"
        f" {ran}. Percentiles (p50, p95, p99) lie between two results in proportion.",
    )


_STATISTICS = {"max": "the largest", "min": "the smallest", "avg": "the mean", "total": "the sum"}
_MEANINGS = {
    "success_pct": "results that passed, in percent of those that ran",
    "error_pct": "results that could not run, in percent of all",
    "judge_cost": "what judges cost, in dollars; in no other cost",
    "input_tokens": "tokens sent, of all results that ran",
    "output_tokens": "tokens answered, of all results that ran",
    "total_tokens": "tokens sent and answered",
    **{
        f"{statistic}_{measure}": f"{words} of the field {measure} of results that ran"
        for statistic, words in _STATISTICS.items()
        for measure in ("latency", "cost")
    },
    **{
        f"p{percent}_latency": f"{percent} % of the results that ran took no longer"
        for percent in (50, 95, 99)
    },
}


def explain_metric(name: str, metrics: Mapping[str, float | None]) -> str:
    """What a number of a run is, and of which results."""
    if name in _MEANINGS:
        return _MEANINGS[name]
    for ending, measure in (("_latency", "latency"), ("_cost", "cost")):
        if name.endswith(ending) and (case := name.removesuffix(ending)) in metrics:
            return f"the mean {measure} of the case {clean_line(case, 60)}"
    if f"{name}_latency" in metrics:
        return "the share of this case's results that passed"
    return "the mean of this scorer over the results that it scored"


class CheckFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A check as people read it."""

    title: str
    outcome: CaseStatus
    reason: str
    origin: str
    """Of what kind it is, and by which version of a scorer."""
    depth: int = 0


class CaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A result as lists show it."""

    case: str
    epoch: int
    name: str
    status: CaseStatus
    why: str
    input: str
    output: str
    checks: list[CheckFacts]
    cost: float | None
    latency: float | None
    tokens: int | None
    error: str | None
    tries: int


def describe_case(result: CaseResult, *, most: int = 4_000) -> CaseFacts:
    """What a result tells, its texts cut."""
    problems = list_problems(result)
    why = "" if not problems else ": ".join(filter(None, problems[0]))
    return CaseFacts(
        case=result.case,
        epoch=result.epoch,
        name=name_case(result, 80),
        status=result.status,
        why=clean_line(why, 300),
        input=result.input[:most],
        output=result.output[:most],
        checks=list(list_checks(result.checks)),
        cost=result.cost,
        latency=result.latency,
        tokens=result.tokens,
        error=result.error,
        tries=result.tries,
    )


def list_checks(checks: tuple[CheckResult, ...], depth: int = 0) -> Iterator[CheckFacts]:
    """Every check, and below an `or` its alternatives."""
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
