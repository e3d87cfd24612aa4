"""Plain data between host and guest: Python's own types come out, whatever went in."""

from __future__ import annotations

import collections
import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.sandbox.plugins.answer_frames import join_answers
from tallymark.sandbox.plugins.plain_data import TooLarge, decode, decode_answers, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("äx\n"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)


class LyingFloat(float):
    def __float__(self) -> float:
        return 999.0


class LyingInt(int):
    def __index__(self) -> int:
        return 999


class LyingStr(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another"


class Colour(enum.Enum):
    RED = "red"


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value: object) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    ("given", "comes_out"),
    [
        (2**64, 2**64),
        (-(2**63) - 1, -(2**63) - 1),
        (10**400, 10**400),
        (1 << 100_000, math.inf),
        (-(1 << 100_000), -math.inf),
        (LyingFloat(5), 5.0),
        (LyingInt(5), 5),
        (LyingStr("this"), "this"),
        (Fraction(1, 2), 0.5),
        (Fraction(10**400), math.inf),
        (Decimal(5), "5"),
        ((1, 2), [1, 2]),
        (collections.OrderedDict(a=LyingInt(1)), {"a": 1}),
        (collections.UserDict(a=1), {"a": 1}),
        ({1: LyingInt(2)}, {1: 2}),
        (Colour.RED, "red"),
        (1j, "1j"),
        ("\ud800", "?"),
        ([object.__name__, {1}], ["object", [1]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_become_the_nearest_plain_one(given: object, comes_out: object) -> None:
    found = decode(encode(given))
    assert (found, type(found)) == (comes_out, type(comes_out))


def test_nan_stays_nan() -> None:
    assert math.isnan(decode(encode(math.nan)))


def test_a_circle_ends() -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    assert "self" in decode(encode(circle))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xd9\x05abc",
        b"\xa1\xff",
        b"\x91" * 100_000,
        b"\x81\x80\x01",
        encode(msgspec.msgpack.Ext(2, b"x")),
        encode(msgspec.msgpack.Ext(1, b"x" * 5000)),
    ],
    ids=[
        "nothing",
        "no such type",
        "an end missing",
        "text cut short",
        "not UTF-8",
        "nested without end",
        "a mapping as key",
        "an unknown kind",
        "an int too large",
    ],
)
def test_what_is_not_data_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError, TypeError)):
        decode(data)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([[]] * 60_000, "the answer has more than 30,000 values"),
        (dict.fromkeys(range(20000)), "the answer has more than 30,000 values"),
        ([[1, "a", {"b": b"c"}, 2.5, -7]] * 5000, "the answer has more than 30,000 values"),
        ("x" * 200_000, "the answer has 200,005 bytes, more than 131,072"),
    ],
    ids=["lists", "keys", "mixed", "long"],
)
def test_an_answer_that_is_too_large_is_not_read(answer: Any, why: str) -> None:
    small = ["beside", 2**70]
    encoded = [encode(each) for each in (small, answer, small)]
    first, found, last = decode_answers(join_answers(encoded), 2**17)
    assert (first, last) == (small, small)
    assert isinstance(found, TooLarge)
    assert found.why == why


def test_an_answer_that_is_too_deep_is_not_read() -> None:
    """As bytes: no encoder makes it."""
    deep = b"\x92\xda\x80\x00" + b"x" * 32768 + b"\x91" * 70 + b"\xc0"
    (found,) = decode_answers(join_answers([deep]), 2**17)
    assert isinstance(found, TooLarge)
    assert found.why == "the answer is nested deeper than 64 levels"


@given(PLAIN)
def test_what_is_not_too_large_is_read_whole(value: Any) -> None:
    padded = [value, "x" * 31_000]
    assert decode_answers(join_answers([encode(padded)]), 2**17) == [decode(encode(padded))]
