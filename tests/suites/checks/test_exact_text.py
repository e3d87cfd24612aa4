"""`contains`, `not_contains` and `equals`: to the letter."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked

from tallymark.documents.source import Source
from tallymark.suites.suite_file import load_source


@pytest.mark.parametrize(
    ("kind", "text", "output", "passed"),
    [
        ("contains", "Paris", "It is Paris.", True),
        ("contains", "paris", "It is Paris.", False),
        ("contains", "*", "2 * 3", True),
        ("contains", "*", "2 + 3", False),
        ("contains", "a.c", "abc", False),
        ("contains", "b\nc", "ab\ncd", True),
        ("contains", "", "x", True),
        ("contains", "é", "e\u0301", False),
        ("not_contains", "paris", "It is Paris.", True),
        ("not_contains", "Paris", "It is Paris.", False),
        ("equals", "Paris", "Paris", True),
        ("equals", "Paris", "paris", False),
        ("equals", "Paris", " Paris", False),
        ("equals", "Paris", "Paris\n", False),
        ("equals", "", "", True),
    ],
)
def test_a_text_and_an_answer(kind: str, text: str, output: str, passed: bool) -> None:
    result = checked(kind, text, output)
    assert (result.passed, result.error) == (passed, None)
    word = "equal" if kind == "equals" else "contain"
    found = passed is not kind.startswith("not_")
    assert result.reason == f"{f'{word}s' if found else f'does not {word}'} {text!r}"


def test_a_list_is_several_checks() -> None:
    text = "evals: [{prompt: p, checks: [contains: [a, b], not_contains: [c]]}]"
    (entry,) = load_source(Source(text, "s.yaml")).evals
    assert [(spec.kind, spec.config) for spec in entry.all_checks()] == [
        ("contains", "a"),
        ("contains", "b"),
        ("not_contains", "c"),
    ]
