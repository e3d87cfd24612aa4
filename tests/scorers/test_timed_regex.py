"""Regular expressions are kept within bounds."""

from __future__ import annotations

import pytest

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import compile_regex


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("[", "this is not a regular expression: unterminated character set"),
        ("(", "this is not a regular expression"),
        ("a{2}{3}*+?+", "this is not a regular expression"),
        ("*a", "this is not a regular expression: nothing to repeat"),
        ("(?P<n>a)(?P=m)", "this is not a regular expression: unknown group"),
        ("(" * 500 + ")" * 500, "this is not a regular expression"),
        ("a{99999999999}", "the regular expression is too large"),
        ("(a{1000}){1000}", "the regular expression is too large; lower its counts {n}"),
        ("(?:" * 30 + "a" + "){10}" * 30, "the regular expression is too large"),
        ("a" * 10_001, "the regular expression is too large"),
    ],
)
def test_what_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_regex(pattern)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}-\d{2}",
        r"(\d{1,3}\.){3}",
        "[{}]{3}",
        r"\{99999999}",
        "a{1000}b{1000}",
        "[]a]{2}",
    ],
)
def test_counts_that_are_fine(pattern: str) -> None:
    compile_regex(pattern)
