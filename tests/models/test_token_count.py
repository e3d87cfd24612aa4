from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.models import count_tokens, token_count
from tallymark.models.token_count import count_each


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("hello", 1),
        ("What is 2 + 2?", 8),
        ("The quick brown fox jumps over the lazy dog.", 12),
        ("    indented", 3),
        ("日本語", 4),
    ],
)
def test_known_counts(text: str, count: int) -> None:
    assert count_tokens(text) == count


def whole(text: str) -> int:
    """The count of the tokenizer itself, in one piece."""
    return (
        len(token_count._load_tokenizer().encode(" " + text, add_special_tokens=False))
        if text
        else 0
    )


@given(st.text(st.sampled_from(list("ab  \n\té日🎉{}_.1")), max_size=60))
def test_counting_word_by_word_is_exact(text: str) -> None:
    assert count_tokens(text) == whole(text)


def test_half_a_surrogate_pair_can_be_counted() -> None:
    assert count_tokens("a\ud83d!") == count_tokens("a?!")


def test_a_word_without_end_is_counted_in_pieces() -> None:
    text = "x" * 5000
    assert abs(count_tokens(text) - whole(text)) <= 5


def test_the_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_count, "_KEPT_PIECES", 10)
    assert count_tokens(" ".join(f"w{n}" for n in range(100))) > 100
    assert len(token_count._token_counts) <= 10


def test_long_texts_are_counted_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def counted(text: str) -> int:
        threads.append(threading.current_thread())
        return 1

    monkeypatch.setattr(token_count, "count_tokens", counted)
    assert asyncio.run(count_each(["short"])) == [1]
    assert asyncio.run(count_each(["long" * 50_000, "short"])) == [1, 1]
    assert [thread is threading.main_thread() for thread in threads] == [True, False, False]
