"""`regex`: is a regular expression found in the answer?"""

from __future__ import annotations

from tallymark.suites.checks.check import CheckType, Quick, Setting
from tallymark.suites.checks.match import searching
from tallymark.suites.checks.patterns import compile_regex
from tallymark.suites.file.shapes import Text
from tallymark.suites.record import CheckResult


def _build(pattern: str, setting: Setting) -> Quick:
    shown = setting.quote(pattern)
    yes = CheckResult(kind="regex", passed=True, reason=f"{shown} is found")
    no = CheckResult(kind="regex", passed=False, reason=f"{shown} is not found")
    return searching("regex", compile_regex(pattern), yes, no)


REGEX = CheckType(
    "regex",
    Text(),
    _build,
    "A regular expression that must be found in the answer; flags go into it: (?i), (?s), (?m). "
    "A list: all of them.",
    many=True,
)
