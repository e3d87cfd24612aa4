from __future__ import annotations

import pytest

from tallymark.scorers.wording import cut, listed, quoted


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "ab..."), ("äöüäöüä", "äö...")]
)
def test_a_long_text_is_cut(text: str, shown: str) -> None:
    assert cut(text, 5) == shown


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d", "e"], "a; b; c; and 2 more"),
        (["x" * 40], "x" * 40),
        (["x" * 41], "x" * 37 + "..."),
    ],
)
def test_a_long_list_is_cut(texts: list[str], line: str) -> None:
    assert listed(texts, between="; ", most=3) == line


def test_quoted_texts_keep_their_closing_quote() -> None:
    assert quoted(["a\n", "x" * 38, "y" * 39]) == rf"'a\n', '{'x' * 38}', '{'y' * 35}...'"
