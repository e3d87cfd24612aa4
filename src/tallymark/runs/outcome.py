"""From a run's numbers to what is kept of it: metrics, score, interval, counts, status."""

from __future__ import annotations

from typing import Any

from tallymark.formula import Formula
from tallymark.runs.record import RunRecord, RunStatus
from tallymark.runs.tally import Tally


def outcome(formula: Formula, tally: Tally, *, undefined: float | None = None) -> dict[str, Any]:
    """The fields of a `RunRecord` that sum it up. `undefined` stands in for a missing score."""
    scored = tally.score(formula)
    interval = None
    if scored.score is not None:
        from tallymark.runs.intervals import score_interval  # noqa: PLC0415 (numpy is heavy)

        interval = score_interval(formula, tally)
    return {
        "formula": str(formula),
        "metrics": tally.metrics(),
        "score": undefined if scored.score is None else scored.score,
        "score_error": scored.error,
        "score_low": interval.low if interval else None,
        "score_high": interval.high if interval else None,
        "passed": tally.all.passed,
        "failed": tally.all.ran - tally.all.passed,
        "errors": tally.errors,
    }


def final_status(record: RunRecord, *, stopped: bool) -> RunStatus:
    """What a run is when nothing of it runs any more."""
    finished = record.passed + record.failed + record.errors
    if stopped and finished < record.total:
        return "cancelled"
    if record.passed + record.failed == 0:
        return "failed"
    return "partial_failure" if record.errors or finished < record.total else "completed"
