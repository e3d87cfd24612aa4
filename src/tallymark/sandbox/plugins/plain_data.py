"""Plain data as bytes, between host and guest: what comes out is Python's own types, always.

The side that reads does not trust the side that wrote: msgpack cannot name a class or run code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import msgspec

MOST_VALUES = 30_000
"""In one answer, texts and numbers and what holds them; few bytes can mean very many."""
_BIG_INT = 1
_BIGGEST_INT_BYTES = 4096
_DEEPEST = 64
_TEXT_CHARS = 1000
_BYTE_AT_LEAST = frozenset({float, int, bool, type(None)})
_TEXTS = (str, bytes, bytearray)
_CONTAINERS = (dict, list, tuple, set, frozenset)
_FEW = 64
"""Number of short items that are encoded without counting: they cannot exhaust memory."""


def _decode_extension(code: int, data: memoryview) -> int:
    if code != _BIG_INT or len(data) > _BIGGEST_INT_BYTES:
        raise ValueError("an unknown kind of data")
    return int.from_bytes(data, "big", signed=True)


_encoder = msgspec.msgpack.Encoder(decimal_format="number")
_decoder = msgspec.msgpack.Decoder(ext_hook=_decode_extension)
decode = _decoder.decode
_encode_quickly = _encoder.encode


class Unread:
    """Stands for an answer that was not read; `why` has the reason."""

    def __init__(self, why: str) -> None:
        self.why = why


def decode_answer(data: bytes, most_bytes: int) -> Any:
    """An answer, its size looked at before anything is made of it; an `Unread` if it is none."""
    if len(data) > most_bytes:
        return Unread(f"the answer has {len(data):,} bytes, more than {most_bytes:,}")
    # So few bytes cannot be too many values.
    excess = _find_excess(data) if len(data) > MOST_VALUES else None
    if excess is not None:
        return Unread(excess)
    try:
        return decode(data)
    except (ValueError, TypeError, RecursionError):
        return Unread("the plugin's answer is not readable data")


# What follows the first byte of a value from 0xc4 on: how many bytes, which are a length to skip
# ("skip"), or a number of values ("list"; a map has twice as many), or neither.
_AFTER = {
    **{0xC4 + at: (size, "skip", 0) for at, size in enumerate((1, 2, 4))},  # bytes
    **{0xC7 + at: (size, "skip", 1) for at, size in enumerate((1, 2, 4))},  # extensions
    **{0xCA + at: (size, "", 0) for at, size in enumerate((4, 8, 1, 2, 4, 8, 1, 2, 4, 8))},
    **{0xD4 + at: (size, "", 0) for at, size in enumerate((2, 3, 5, 9, 17))},
    **{0xD9 + at: (size, "skip", 0) for at, size in enumerate((1, 2, 4))},  # texts
    **{0xDC + at: (size, "list", 1) for at, size in enumerate((2, 4))},
    **{0xDE + at: (size, "list", 2) for at, size in enumerate((2, 4))},
}


def _find_excess(data: bytes) -> str | None:
    """The limit that the data exceeds, found without building objects; broken data is reported
    later.
    """
    left, values, at = [1], 0, 0
    while left and at < len(data):
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        values += 1
        if values > MOST_VALUES:
            return f"the answer has more than {MOST_VALUES:,} values"
        head = data[at]
        at += 1
        inner = 0
        if head in _AFTER:
            size, kind, extra = _AFTER[head]
            number = int.from_bytes(data[at : at + size], "big") if kind else 0
            at += size + (number + extra if kind == "skip" else 0)
            inner = number * extra if kind == "list" else 0
        elif 0x80 <= head <= 0x9F:  # a short map, a short list
            inner = (head & 15) * (2 if head < 0x90 else 1)
        elif 0xA0 <= head <= 0xBF:  # a short text
            at += head & 31
        if inner:
            left.append(inner)
            if len(left) > _DEEPEST:
                return f"the answer is nested deeper than {_DEEPEST} levels"
    return None


def encode(value: object) -> bytes:
    """Quick for Python's own types; other values become the nearest of them, or text."""
    try:
        return _encode_quickly(value)
    except Exception:  # noqa: BLE001 (any class may stand in the data, and raise anything)
        return _encode_quickly(_make_plain(value, 0))


class AnswerTooLarge(Exception):
    """The data to encode has more bytes than allowed; the text has a lower bound of their
    number.
    """


def encode_within(value: object, most: int) -> bytes:
    """Encode as `encode`, after counting: an encoder that runs out of memory ends its process."""
    if not _is_small(value):
        _count_bytes(value, most)
    try:
        return _encode_quickly(value)
    except Exception:  # noqa: BLE001 (as in `encode`)
        plain = _make_plain(value, 0)
        _count_bytes(plain, most)
        return _encode_quickly(plain)


def _is_small(value: object) -> bool:
    """True for a mapping of a few short items, as nearly every answer is."""
    if type(value) is not dict or len(value) > _FEW:
        return False
    for key, item in value.items():
        kind = type(item)
        if kind is dict:
            if len(item) > _FEW:
                return False
            for inner_key, inner in item.items():
                if type(inner) not in _BYTE_AT_LEAST or type(inner_key) is not str:
                    return False
                if len(inner_key) > _FEW:
                    return False
        elif kind not in _BYTE_AT_LEAST:
            return False
        if type(key) is not str or len(key) > _FEW:
            return False
    return True


def _count_bytes(value: object, most: int) -> None:
    """`AnswerTooLarge` for a value of more bytes: a lower bound counts one for all but text."""
    size = 1
    level: list[Any] = [value]
    for _ in range(_DEEPEST + 1):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _BYTE_AT_LEAST:
                continue
            if kind is str or isinstance(item, _TEXTS):
                size += len(item)
            elif kind is dict or isinstance(item, _CONTAINERS):
                size += len(item)
                # Before it is gone through: a list may name one thing millions of times.
                if size > most:
                    break
                inner += item
                if kind is dict or isinstance(item, dict):
                    size += len(item)
                    inner += item.values()
        if size > most:
            raise AnswerTooLarge(f"over {size:,} bytes, more than {most:,}")
        if not inner:
            return
        level = inner


def _make_plain(value: Any, depth: int) -> object:
    """The value's real content, without trusting its class."""
    match value:
        case None | bool():
            return value
        case int():
            return _make_plain_int(int.__index__(value))
        case float():
            return float.__float__(value)
        case str():
            return str.__str__(value).encode("utf-8", "replace").decode()
        case Mapping() if depth < _DEEPEST:
            items = dict(value).items()
            return {_make_plain(key, _DEEPEST): _make_plain(item, depth + 1) for key, item in items}
        case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
            return [_make_plain(item, depth + 1) for item in value]
        case Real() | Decimal():
            return _make_float(value)
        case _:
            return str(value)[:_TEXT_CHARS].encode("utf-8", "replace").decode()


def _make_plain_int(value: int) -> object:
    if -(2**63) <= value < 2**64:
        return value
    size = value.bit_length() // 8 + 1
    if size > _BIGGEST_INT_BYTES:
        return math.inf if value > 0 else -math.inf
    return msgspec.msgpack.Ext(_BIG_INT, value.to_bytes(size, "big", signed=True))


def _make_float(value: Any) -> float:
    try:
        return float.__float__(float(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a Decimal that signals that it is not a number
        return math.nan
