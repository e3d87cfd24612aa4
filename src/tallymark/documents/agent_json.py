"""JSON as agents write it, and as code writes it that nobody trusts."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

MOST_BYTES = 8_000_000
MOST_VALUES = 200_000
DEEPEST = 64
_FEW = 32
# To the end where it is not closed: else each quote in it would be tried as the beginning of one.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(rb"[][{}]")
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)


def read_json(text: str, *, fenced: bool = False) -> Any:
    """The value of a JSON text, or of the first ``` block in it; else a ValueError with words.

    The quick decoder is tried first; the other accepts half surrogate pairs, as JavaScript
    does, and says better what is wrong.
    """
    block = _FENCED.search(text) if fenced else None
    if block is not None:
        text = block[1]
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_bounded_json(
    data: bytes, *, most_bytes: int = MOST_BYTES, most_values: int = MOST_VALUES
) -> Any:
    """The value of a JSON text whose size is known before anything is built of it.

    A few bytes can mean a hundred times as much memory (`[[],[],[]`), and time without end after
    that. Else as `read_json`.
    """
    if len(data) > most_bytes:
        raise ValueError(f"it has {len(data):,} bytes, more than {most_bytes:,}")
    check_json_size(data, most_values)
    return read_json(data.decode())


def check_json_size(data: bytes, most_values: int) -> None:
    """A ValueError for more values, or deeper ones, than anything should be built of."""
    # Each value but the first comes after one of these; in texts they are counted too, at first.
    if sum(map(data.count, (b",", b"[", b"{"))) > _FEW:
        _check_structure(_TEXT.sub(b"", data), most_values)


def _check_structure(data: bytes, most_values: int) -> None:
    """What is outside of texts: how much it is, and how deep."""
    values = sum(map(data.count, (b",", b"[", b"{")))
    if values > most_values:
        raise ValueError(f"it has more than {most_values:,} values")
    level = 0
    for bracket in _BRACKET.findall(data):
        level += 1 if bracket in b"[{" else -1
        if level > DEEPEST:
            raise ValueError("it is nested too deeply")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
