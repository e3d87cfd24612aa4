"""`regex`: is a regular expression found in the answer?"""

from __future__ import annotations

from tallymark.suites.checks.check import CheckSetting, CheckType, QuickCheck
from tallymark.suites.checks.match import build_search
from tallymark.suites.checks.patterns import compile_regex
from tallymark.suites.file.shapes import TextShape
from tallymark.suites.record import CheckResult


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
)
