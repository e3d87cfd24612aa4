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

from tallymark.sandbox.plugins.plain_data import (
    AnswerTooLarge,
    Unread,
    decode,
    decode_answer,
    encode,
    encode_within,
)

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
        (Decimal("2.5"), 2.5),
        (Decimal("1e999"), math.inf),
        ([LyingInt(1), Decimal("-1e999")], [1, -math.inf]),
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
    assert math.isnan(decode(encode(Decimal("sNaN"))))


@pytest.mark.parametrize(
    "value",
    ["x" * 99, [1] * 99, {"a": ("b", {"c": [None, "d" * 50]})}, {LyingInt(1): Fraction(1, 2)}],
    ids=["text", "list", "nested", "other values"],
)
def test_small_data_is_encoded_as_without_a_limit(value: object) -> None:
    assert encode_within(value, 100) == encode(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100,
        b"x" * 100,
        [1] * 100,
        dict.fromkeys(range(100)),
        [["x" * 40], {"key" * 10: {"x" * 40}}],
        [[[0] * 10] * 10] * 10**6,
        collections.UserDict(a="x" * 100),
        [Fraction(1, 2), "x" * 100],
    ],
    ids=["text", "bytes", "list", "dict", "parts", "one many times", "other class", "mixed"],
)
def test_what_is_too_large_is_not_encoded(value: object) -> None:
    with pytest.raises(AnswerTooLarge, match="bytes, more than 100"):
        encode_within(value, 100)


def test_what_holds_itself_is_cut_or_too_large() -> None:
    once: dict[str, Any] = {}
    once["self"] = once
    assert decode(encode_within(once, 10_000))["self"]["self"].keys() == {"self"}
    twice: list[Any] = []
    twice += [twice, twice]
    with pytest.raises(AnswerTooLarge):
        encode_within(twice, 10_000)


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
    found = decode_answer(encode(answer), 2**17)
    assert isinstance(found, Unread)
    assert found.why == why


def test_an_answer_that_is_too_deep_is_not_read() -> None:
    """As bytes: no encoder makes it."""
    deep = b"\x92\xda\x80\x00" + b"x" * 32768 + b"\x91" * 70 + b"\xc0"
    found = decode_answer(deep, 2**17)
    assert isinstance(found, Unread)
    assert found.why == "the answer is nested deeper than 64 levels"


@given(PLAIN)
def test_what_is_not_too_large_is_read_whole(value: Any) -> None:
    padded = [value, "x" * 31_000]
    assert decode_answer(encode(padded), 2**17) == decode(encode(padded))
