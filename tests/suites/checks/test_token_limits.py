"""`min_tokens` and `max_tokens`: who counted is said; what nobody counted is counted here."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked


@pytest.mark.parametrize(
    ("kind", "limit", "tokens", "passed"),
    [
        ("max_tokens", 50, 50, True),
        ("max_tokens", 50, 51, False),
        ("max_tokens", 0, 0, True),
        ("min_tokens", 5, 5, True),
        ("min_tokens", 5, 4, False),
        ("min_tokens", 0, 0, True),
    ],
)
def test_limits_are_included(kind: str, limit: int, tokens: int, passed: bool) -> None:
    assert checked(kind, limit, output_tokens=tokens).passed is passed


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("provider", "7 tokens, counted by the provider (needs at most 9)"),
        ("local", "7 tokens, counted here (needs at most 9)"),
        (None, "7 tokens (needs at most 9)"),
    ],
)
def test_who_counted(by: str | None, reason: str) -> None:
    assert checked("max_tokens", 9, output_tokens=7, tokens_counted_by=by).reason == reason


@pytest.mark.parametrize(("kind", "asked"), [("min_tokens", "least"), ("max_tokens", "most")])
def test_what_nobody_counted_is_counted_here(kind: str, asked: str) -> None:
    result = checked(kind, 2, "hello world", output_tokens=None)
    assert (result.passed, result.error) == (True, None)
    assert result.reason == f"2 tokens, counted here (needs at {asked} 2)"
