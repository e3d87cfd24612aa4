"""Checks for tests, built from their config as a suite writes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tallymark.models import Answer, Message, Request
from tallymark.suites.checks.answer_under_check import Subject
from tallymark.suites.checks.check_definition import Check, Checks, CheckSetting, CheckSpec
from tallymark.suites.checks.check_types import build_check

if TYPE_CHECKING:
    from tallymark.runs.record import CheckResult


def built(kind: str, config: Any, **setting: Any) -> Check:
    return build_check(CheckSpec(kind, config), CheckSetting(**setting))


def subject(output: str = "", **facts: Any) -> Subject:
    request = Request(messages=(Message("user", "the prompt"),))
    return Subject(Answer(output=output, **{"latency": 1.0, **facts}), request)


def checked(kind: str, config: Any, output: str = "", **facts: Any) -> CheckResult:
    """The result of one check, whether or not it waits."""
    checks = Checks.of([built(kind, config)])
    about = subject(output, **facts)
    if checks.waits:
        return asyncio.run(checks.evaluate(about))[0]
    return checks.run(about)[0]
