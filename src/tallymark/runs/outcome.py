"""From a run's numbers to what is kept of it: metrics, score, interval, counts, status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.intervals import Interval
    from tallymark.runs.record import RunRecord, RunStatus
    from tallymark.runs.tally import Tally


def outcome(
    formula: Formula, tally: Tally, *, undefined: float | None = None, interval: bool = True
) -> dict[str, Any]:
    """The fields of a `RunRecord` that sum it up. `undefined` stands in for a missing score."""
    scored = tally.score(formula)
    ends = find_interval(formula, tally) if interval and scored.score is not None else None
    total = tally.all
    return {
        "formula": str(formula),
        "metrics": tally.metrics(),
        "score": undefined if scored.score is None else scored.score,
        "score_error": scored.error,
        "score_low": ends.low if ends else None,
        "score_high": ends.high if ends else None,
        "passed": total.passed,
        "failed": total.ran - total.passed,
        "errors": tally.errors,
    }


def find_interval(formula: Formula, tally: Tally) -> Interval | None:
    """The 95 % interval of a score; of a single result there is none."""
    if tally.finished < 2:
        return None
    from tallymark.runs.intervals import score_interval  # noqa: PLC0415 (numpy is heavy)

    return score_interval(formula, tally)


def final_status(record: RunRecord, *, stopped: bool) -> RunStatus:
    """What a run is when nothing of it runs any more."""
    finished = record.passed + record.failed + record.errors
    if stopped and (finished < record.total or not record.total):
        return "cancelled"
    if record.passed + record.failed == 0:
        return "failed"
    return "partial_failure" if record.errors or finished < record.total else "completed"
