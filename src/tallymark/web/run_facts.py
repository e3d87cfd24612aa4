"""What pages tell of runs and of cases, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tallymark.runs.problems import describe_check, list_problems, name_case, name_model
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord, RunStatus
from tallymark.text import clean_line

_OWN_TAGS = {"folder", "limit", "epochs", "chosen", "door", "prompt", "rescored_from"}
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

    @property
    def ran(self) -> int:
        return self.passed + self.failed

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
        formula=record.formula,
        group=record.group,
        door=record.tags.get("door"),
        tags=_read_tags(record.tags),
        error=record.error,
    )


def _read_tags(tags: dict[str, Any]) -> dict[str, str]:
    known = {key: value for key, value in tags.items() if key not in _OWN_TAGS}
    return {
        key: clean_line(str(value), 40)
        for key, value in known.items()
        if isinstance(value, str | int | float | bool)
    }


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
