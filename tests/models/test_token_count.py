from __future__ import annotations

import asyncio
import threading
from base64 import b64encode
from functools import cache
from hashlib import sha256

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.models import count_tokens, token_count
from tallymark.models.token_count import count_each, load_tokenizer


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        # As OpenAI publishes them for this tokenizer.
        ("hello world", 2),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
        ("    indented", 3),
        ("The quick brown fox jumps over the lazy dog.", 10),
    ],
)
def test_known_counts(text: str, count: int) -> None:
    assert count_tokens(text) == count


@cache
def reference() -> tiktoken.Encoding:
    """The same tokenizer as OpenAI's own library runs it, with its own pattern."""
    from tiktoken_ext.openai_public import cl100k_base

    with pytest.MonkeyPatch.context() as patch:
        # Which would fetch them.
        patch.setattr("tiktoken_ext.openai_public.load_tiktoken_bpe", lambda *_, **__: ranks())
        return tiktoken.Encoding(**cl100k_base())


def ranks() -> dict[bytes, int]:
    return load_tokenizer()[1]


def test_the_ranks_are_those_that_openai_publishes() -> None:
    lines = (f"{b64encode(token).decode()} {rank}\n" for token, rank in ranks().items())
    published = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
    assert sha256("".join(lines).encode()).hexdigest() == published


@settings(deadline=None)
@given(st.text("ab  \n\r\té日🎉{}_.1's\u017f\x1c\x85\u2028\u3000", max_size=60))
def test_counts_are_those_of_openais_own_library(text: str) -> None:
    assert count_tokens(text) == len(reference().encode_ordinary(text))


def test_half_a_surrogate_pair_can_be_counted() -> None:
    assert count_tokens("a\ud83d!") == count_tokens("a?!")


@pytest.mark.parametrize("text", ["x" * 5000, "ab" * 3000, " " * 5000, "日本" * 2000])
def test_a_word_without_end_is_counted_exactly(text: str) -> None:
    assert count_tokens(text) == len(reference().encode_ordinary(text))


@pytest.mark.parametrize("text", [" " * 300_000 + "x", "\n" * 300_000 + " x"])
def test_white_space_without_end_is_counted(text: str) -> None:
    """The first kills tiktoken by itself."""
    assert 0 < count_tokens(text) < 20_000


def test_what_is_longer_than_anybody_writes_is_counted_in_part() -> None:
    text = "some words, " * 500
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_count, "LONGEST", 3_000)
        assert count_tokens(text) == pytest.approx(len(reference().encode_ordinary(text)), rel=0.01)


def test_long_texts_are_counted_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def counted(text: str) -> int:
        threads.append(threading.current_thread())
        return 1

    load_tokenizer()
    monkeypatch.setattr(token_count, "count_tokens", counted)
    assert asyncio.run(count_each(["short"])) == [1]
    assert asyncio.run(count_each(["long" * 50_000, "short"])) == [1, 1]
    assert [thread is threading.main_thread() for thread in threads] == [True, False, False]
