"""Values of a shape that nobody promised."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallymark.errors import Place, TraceError
from tallymark.traces.lenient_json import as_amount, as_count, as_label, as_text, decode, to_unix_ms


@pytest.mark.parametrize(
    ("value", "found"),
    [(1, 1.0), (0.5, 0.5), (0, 0.0), (-1, None), (math.nan, None), (math.inf, None),
     (10**400, None), (True, None), ("1", None), (None, None), ([], None)],
)  # fmt: skip
def test_a_number_is_finite_and_not_negative(value: Any, found: float | None) -> None:
    assert as_amount(value) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [(1, 1), (2.0, 2), ("12", 12), (2**63 - 1, 2**63 - 1), (2**63, None), ("9" * 30, None),
     ("-1", None), ("\u0661", None), ("", None), (-1, None), (True, None), (None, None)],
)  # fmt: skip
def test_a_count_is_whole_and_exact(value: Any, found: int | None) -> None:
    assert as_count(value) == found


@pytest.mark.parametrize(
    ("value", "found"), [("a", "a"), (7, "7"), ("", None), (True, None), (1.5, None), ({}, None)]
)
def test_a_label_is_a_string_or_an_integer(value: Any, found: str | None) -> None:
    assert as_label(value) == found


@pytest.mark.parametrize(
    ("value", "found"), [("a", "a"), (None, ""), ({"a": [1, math.nan]}, '{"a":[1,null]}'), (0, "0")]
)
def test_a_text_is_a_string_or_compact_json(value: Any, found: str) -> None:
    assert as_text(value) == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("1970-01-01T00:00:01Z", 1000.0),
        ("1970-01-01T01:00:01.500+01:00", 1500.0),
        ("1970-01-01T00:00:01", 1000.0),
        ("yesterday", None),
        ("", None),
        (5, None),
    ],
)
def test_a_time_is_iso_8601(value: Any, found: float | None) -> None:
    assert to_unix_ms(value) == found


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a": NaN}', {"a": None}),
        (b"[-Infinity]", [None]),
        (b'"\\ud800"', "\ufffd"),
        (b'{"\\ud800": ["\\udc00"]}', {"\ufffd": ["\ufffd"]}),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
def test_what_real_writers_emit_is_read(raw: bytes, value: Any) -> None:
    assert decode(raw) == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "f:7: not valid JSON: Expecting property name"),
        (b"[1e999]", "f:7: not valid JSON: the number 1e999 is too large"),
        (b'"\xff"', r"f:7: not UTF-8 text \(byte 2\)"),
        (b"[" * 9999, "f:7: the JSON is nested too deeply to read"),
        (b"[" * 800 + b"NaN" + b"]" * 800, "f:7: the JSON is nested too deeply to read"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_place(raw: bytes, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        decode(raw, Place("f", 7))
