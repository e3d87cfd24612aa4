"""Two texts word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tallymark.web.word_diff import Piece, compare_words


def test_what_only_one_has_is_marked() -> None:
    found = compare_words("we can refund it", "we can not refund it")
    assert found.first == [Piece("same", "we can refund it")] or all(
        piece.kind == "same" for piece in found.first
    )
    assert Piece("new", "not ") in found.second or Piece("new", " not") in found.second


@given(st.text(), st.text())
def test_the_pieces_of_a_text_are_the_text(first: str, second: str) -> None:
    found = compare_words(first, second)
    assert "".join(piece.text for piece in found.first) == first
    assert "".join(piece.text for piece in found.second) == second


def test_texts_that_would_take_too_long_are_shown_whole() -> None:
    assert not compare_words("word " * 600, "word other " * 300).whole
    assert compare_words("word " * 5000, "other").whole
