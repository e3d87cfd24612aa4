"""Globs agree with a plain definition of what they mean."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tallymark.suites.checks.glob import compile_glob
from tallymark.suites.checks.subject import fold

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
