"""`contains`, `not_contains` and `equals`: the answer compared with a text, to the letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.shapes import TextShape
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, QuickCheck

if TYPE_CHECKING:
    from collections.abc import Callable


def _make_type(
    kind: str, found: Callable[[str, str], bool], reasons: tuple[str, str], help_: str
) -> CheckType:
    """`reasons` are for an answer that was found to be so, and for one that was not."""
    wanted = not kind.startswith("not_")

    def build(text: str, setting: CheckSetting) -> QuickCheck:
        shown = setting.quote(text)
        yes = CheckResult(kind=kind, passed=wanted, reason=f"{reasons[0]} {shown}")
        no = CheckResult(kind=kind, passed=not wanted, reason=f"{reasons[1]} {shown}")
        return lambda subject: yes if found(text, subject.answer.output) else no

    return CheckType(
        kind, TextShape(may_be_empty=True), build, help_, many=kind != "equals", settled=True
    )


_CONTAINS = ("contains", "does not contain")
CONTAINS = _make_type(
    "contains",
    lambda text, answer: text in answer,
    _CONTAINS,
    "A text that the answer must contain, exactly: case counts, and * is only a star. A list: all "
    "of them.",
)
NOT_CONTAINS = _make_type(
    "not_contains",
    lambda text, answer: text in answer,
    _CONTAINS,
    "A text that the answer must not contain, exactly: case counts. A list: none of them.",
)
EQUALS = _make_type(
    "equals",
    lambda text, answer: text == answer,
    ("equals", "does not equal"),
    "A text that the answer must be, to the letter: case and space around it count.",
)
