"""`todo`: a check that is still to be written. Until it is, its case is an error."""

from __future__ import annotations

from tallymark.documents.shapes import TextShape
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, QuickCheck


def _build(what: str, setting: CheckSetting) -> QuickCheck:
    error = f"a check is still to be written: {setting.redact(what)}"
    result = CheckResult(kind="todo", passed=False, error=error)
    return lambda _: result


TODO = CheckType(
    "todo",
    TextShape(),
    _build,
    "What is still to be checked, in words: the case cannot pass until a check stands in its "
    "place. `tally import` writes it for what it could not carry over.",
    many=True,
    settled=True,
)
