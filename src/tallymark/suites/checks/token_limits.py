"""`min_tokens` and `max_tokens`: how long is the answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.shapes import NumberShape
from tallymark.models import count_tokens
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import CheckType, Notice, QuickCheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.suites.checks.answer_under_check import Subject

_COUNTED = {"provider": ", counted by the provider", "local": ", counted here", None: ""}


def _build(kind: str, limit: int) -> QuickCheck:
    at_most = kind == "max_tokens"
    needs = f"(needs at {'most' if at_most else 'least'} {limit})"

    def check(subject: Subject) -> CheckResult:
        answer = subject.answer
        tokens, counted = answer.output_tokens, _COUNTED[answer.tokens_counted_by]
        if tokens is None:  # the count was not needed before
            tokens, counted = count_tokens(answer.output), _COUNTED["local"]
        passed = tokens <= limit if at_most else tokens >= limit
        return CheckResult(kind=kind, passed=passed, reason=f"{tokens} tokens{counted} {needs}")

    return check


def _list_notices(kind: str, limit: int) -> Iterator[Notice]:
    if limit == 0:
        outcome = "only empty answers pass" if kind == "max_tokens" else "it can never fail"
        yield "always", f"{kind}: 0, so {outcome}"


def _make_type(kind: str, what: str) -> CheckType:
    return CheckType(
        kind,
        NumberShape(low=0, whole=True),
        build=lambda config, _: _build(kind, config),
        help=f"{what} tokens in the answer: the provider's count, or else a local one.",
        notices=lambda config: _list_notices(kind, config),
        settled=True,
    )


MIN_TOKENS = _make_type("min_tokens", "At least so many")
MAX_TOKENS = _make_type("max_tokens", "At most so many")
