"""`regex`: found anywhere, exactly as written."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked

from tallymark.errors import InvalidInput


@pytest.mark.parametrize(
    ("pattern", "output", "passed"),
    [
        ("b", "abc", True),
        ("B", "abc", False),
        ("(?i)B", "abc", True),
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        ("^$", "", True),
        ("x", "", False),
        (r"\w+", "日本", True),
        (r"\p{Lu}", "É", True),
        ("*".replace("*", r"\*"), "2 * 3", True),
    ],
)
def test_a_pattern_and_an_answer(pattern: str, output: str, passed: bool) -> None:
    result = checked("regex", pattern, output)
    assert (result.passed, result.error) == (passed, None)
    assert result.reason == f"'{pattern}' is {'found' if passed else 'not found'}"


@pytest.mark.parametrize("kind", ["regex", "match", "not_match"])
def test_a_backspace_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput, match="holds a backspace character"):
        checked(kind, "\bfoo", "foo")
