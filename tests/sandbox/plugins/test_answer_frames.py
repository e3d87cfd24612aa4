"""Frames: the answers of a child among whatever bytes come from it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.sandbox.plugins.answer_frames import (
    GIVEN,
    BadFrame,
    Frames,
    mark_given,
    pack_frame,
)

NONCE = bytes(range(16))


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_frames_come_out_whole_however_they_are_cut(payloads: list[bytes], size: int) -> None:
    data = b"".join(pack_frame(NONCE, payload) for payload in payloads)
    frames = Frames(NONCE, most=50)
    found = [f for at in range(0, len(data), size) for f in frames.feed(data[at : at + size])]
    assert found == payloads
    assert not frames.begun


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"score": 999}', "not an answer"),
        (b"\xff", "not an answer"),
        (pack_frame(bytes(16), b"x"), "not an answer"),
        (NONCE[:15] + b"\xff", "not an answer"),
        (pack_frame(NONCE, b"x" * 51), "51 bytes, more than 50"),
        (pack_frame(NONCE, b"x") + b"y", "not an answer"),
    ],
    ids=["text", "first byte", "other nonce", "last byte", "too large", "after an answer"],
)
def test_anything_else_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadFrame, match=said):
        Frames(NONCE, most=50).feed(data)


def test_an_answer_may_be_under_way() -> None:
    frames = Frames(NONCE, most=50)
    assert frames.feed(pack_frame(NONCE, b"whole")[:-1]) == []
    assert frames.begun


def test_marking_an_answer_equals_encoding_it_with_its_mark() -> None:
    result = {"score": 1.0}
    encode = msgspec.msgpack.encode
    assert mark_given(encode(result)) == encode((GIVEN, result))
