"""Globs agree with a plain definition of what they mean, and are told from regular expressions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.suites.checks.answer_under_check import fold
from tallymark.suites.checks.text_match import compile_glob, is_regex

LETTERS = st.sampled_from("ab \n")
PATTERNS = st.text(st.sampled_from("ab*?"), max_size=12)


def as_regex(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(c, re.escape(c)) for c in pattern), re.DOTALL)


@given(PATTERNS, st.text(LETTERS, max_size=20))
def test_a_glob_is_the_regular_expression_that_it_abbreviates(pattern: str, text: str) -> None:
    folded = fold(text)
    assert compile_glob(pattern)(folded) == bool(as_regex(pattern).fullmatch(folded))


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_text_between_stars_is_found_wherever_it_stands(
    before: str, text: str, after: str
) -> None:
    escaped = re.sub(r"([*?])", r"\\\1", fold(text).replace("\\", ""))
    plain = fold(text).replace("\\", "")
    assert compile_glob(f"*{escaped}*")(fold(f"{before}x{plain}x{after}"))


@pytest.mark.parametrize(
    "pattern",
    [
        ".*ABC-[0-9]+.*", "^x", "x$", r"\d", r"\bword\b", "[a-z]", "[A-Za-z0-9_-]", "[^0-9]",
        "[abc]+", "[abc]{3}", "(a|b)", "(?i)x", "(ab)+", ".+", "^$",
    ],
)  # fmt: skip
def test_syntax_that_no_glob_has(pattern: str) -> None:
    assert is_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "", "*", "*4*", "hello", "what?", "*what?*", "[1, 2, 3]", "[2020-2021]", "f(x)", "a|b",
        "$5", "3.14", "x^2", "{2}", "*.*", "*x$", "?x$", "[a", "(a|b", "+^", "C++", "a.b", r"5\$",
    ],
)  # fmt: skip
def test_everything_else_is_a_glob_or_plain_text(pattern: str) -> None:
    assert not is_regex(pattern)
