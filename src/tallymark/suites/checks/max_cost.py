"""`max_cost`: was the answer cheap enough? A price that is not known is an error, not a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.shapes import NumberShape
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, Notice, QuickCheck
from tallymark.text import format_beside, format_money

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.suites.checks.answer_under_check import Subject

_UNKNOWN = CheckResult(
    kind="max_cost",
    passed=False,
    error="max_cost: the cost is not known; give the model's prices in metadata.pricing",
)


def _build(dollars: float, _: CheckSetting) -> QuickCheck:
    needs = f"(needs at most {format_money(dollars)})"

    def check(subject: Subject) -> CheckResult:
        cost = subject.answer.cost
        if cost is None:
            return _UNKNOWN
        reason = f"{format_beside(format_money, cost, dollars)} {needs}"
        return CheckResult(kind="max_cost", passed=cost <= dollars, reason=reason)

    return check


def _list_notices(dollars: float) -> Iterator[Notice]:
    if dollars == 0:
        yield "always", "max_cost: 0, so only answers that cost nothing pass"


MAX_COST = CheckType(
    "max_cost",
    NumberShape(low=0),
    _build,
    "Maximum cost of the answer in US dollars.",
    _list_notices,
    settled=True,
)
