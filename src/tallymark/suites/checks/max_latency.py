"""`max_latency`: did the answer come in time? A time that is not known is an error, not a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.shapes import NumberShape
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, QuickCheck
from tallymark.text import format_beside, format_number, format_seconds

if TYPE_CHECKING:
    from tallymark.suites.checks.answer_under_check import Subject

_UNKNOWN = CheckResult(
    kind="max_latency",
    passed=False,
    error="max_latency: the latency is not known; a replay gives it as `latency`, in seconds",
)


def _build(seconds: float, _: CheckSetting) -> QuickCheck:
    needs = f"(needs at most {format_number(seconds)} s)"

    def check(subject: Subject) -> CheckResult:
        taken = subject.answer.latency
        if taken is None:
            return _UNKNOWN
        reason = f"{format_beside(format_seconds, taken, seconds)} {needs}"
        return CheckResult(kind="max_latency", passed=taken <= seconds, reason=reason)

    return check


MAX_LATENCY = CheckType(
    "max_latency",
    NumberShape(above=0),
    _build,
    "Maximum seconds until the whole answer has arrived.",
    settled=True,
)
