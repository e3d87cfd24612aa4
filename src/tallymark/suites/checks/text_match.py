"""`match` and `not_match`: does the whole answer match a pattern, whatever its case?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.shapes import TextShape
from tallymark.runs.record import CheckResult
from tallymark.scorers.timed_regex import TIME_LIMIT, compile_regex
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, Notice, QuickCheck
from tallymark.suites.checks.glob import compile_glob, is_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.suites.checks.answer_under_check import Subject


def _build(kind: str, pattern: str, setting: CheckSetting) -> QuickCheck:
    shown = setting.quote(pattern)
    wanted = kind == "match"
    yes = CheckResult(kind=kind, passed=wanted, reason=f"matches {shown}")
    no = CheckResult(kind=kind, passed=not wanted, reason=f"does not match {shown}")
    if not is_regex(pattern):
        glob = compile_glob(pattern)
        return lambda subject: yes if glob(subject.folded) else no
    return build_search(kind, compile_regex(pattern, loose=True), yes, no)


def build_search(
    kind: str, search: Callable[[str], bool], yes: CheckResult, no: CheckResult
) -> QuickCheck:
    """A check by a search that may run out of time."""
    late = f"{kind}: the search took longer than {TIME_LIMIT:g} s"

    def check(subject: Subject) -> CheckResult:
        try:
            return yes if search(subject.answer.output) else no
        except TimeoutError:
            return CheckResult(kind=kind, passed=False, error=late)

    return check


def _list_notices(kind: str, pattern: str) -> Iterator[Notice]:
    if pattern.strip() and not pattern.strip().strip("*"):
        outcome = "never fail" if kind == "match" else "never pass"
        yield "always", f"{kind}: '{pattern}' matches every answer, so the check can {outcome}"
    elif is_regex(pattern):
        yield "regex", f"{kind}: '{pattern}' is read as a regular expression, not as a glob"


def _make_type(kind: str, what: str) -> CheckType:
    return CheckType(
        kind,
        TextShape(may_be_empty=True),
        build=lambda config, setting: _build(kind, config, setting),
        help=f"A pattern that the whole answer {what}, in any case: * is any text, ? one "
        "character; without them the answer equals it after trimming. A list: all of them.",
        notices=lambda config: _list_notices(kind, config),
        many=True,
        settled=True,
    )


MATCH = _make_type("match", "must match")
NOT_MATCH = _make_type("not_match", "must not match")
