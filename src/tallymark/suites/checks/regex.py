"""`regex`: is a regular expression found in the answer?"""

from __future__ import annotations

from tallymark.documents.shapes import TextShape
from tallymark.runs.record import CheckResult
from tallymark.scorers.timed_regex import compile_regex
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, QuickCheck
from tallymark.suites.checks.text_match import build_search


def _build(pattern: str, setting: CheckSetting) -> QuickCheck:
    shown = setting.quote(pattern)
    yes = CheckResult(kind="regex", passed=True, reason=f"{shown} is found")
    no = CheckResult(kind="regex", passed=False, reason=f"{shown} is not found")
    return build_search("regex", compile_regex(pattern), yes, no)


REGEX = CheckType(
    "regex",
    TextShape(),
    _build,
    "A regular expression that must be found in the answer; flags go into it: (?i), (?s), (?m). "
    "A list: all of them.",
    many=True,
    settled=True,
)
