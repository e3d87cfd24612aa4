"""Why a result is not a pass, in words that every report uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallymark.runs.record import CaseResult, CheckResult


def check_title(check: CheckResult) -> str:
    """What a check is: `match`, or the scorer's name; its value too where the reason has none."""
    told = check.value is None or check.threshold is not None
    return f"{check.name or check.kind}" + ("" if told else f" {check.value:.3g}")


def explain_check(check: CheckResult) -> str:
    """Why a check passed or failed: `0.42; at least 0.7 asked: too curt`."""
    if check.error is not None:
        return f"could not be done: {check.error}"
    asked = []
    if check.value is not None and check.threshold is not None:
        asked = [f"{check.value:.3g}; at least {check.threshold:g} asked"]
    elif check.label is not None:
        asked = [f"the label {check.label!r}"]
    return ": ".join([*asked, *([check.reason] if check.reason else [])])


def list_failures(checks: Iterable[CheckResult]) -> Iterator[tuple[str, str]]:
    """The checks that failed or could not be done, each with why; those of an `or` follow it."""
    for check in checks:
        if not check.passed:
            yield check_title(check), explain_check(check) or "failed"
            for title, why in list_failures(check.parts):
                yield f"{check_title(check)} / {title}", why


def list_problems(result: CaseResult) -> list[tuple[str, str]]:
    """Why a result is not a pass: an error of the case itself, and its checks."""
    found = list(list_failures(result.checks))
    if result.error is not None and not any(result.error in why for _, why in found):
        found.insert(0, ("error", result.error))
    return found if found or result.status == "passed" else [(result.status, "no reason was given")]
