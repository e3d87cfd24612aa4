"""JSON from agents and from code that is not trusted, within limits."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, NoReturn

import msgspec

MOST_BYTES = 8_000_000
MOST_VALUES = 200_000
DEEPEST = 64
# To the end where it is not closed: else each quote in it would be tried as the beginning of one.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_TEXT = re.compile(_STRING, re.DOTALL)
# Up to the next comma or opening bracket, past a name and a text. It matches from any place,
# so that nothing is scanned twice.
_ONE_VALUE = re.compile(
    rb'[^"\[{,]*+(?:' + _STRING + rb'[^"\[{,]*+){0,2}+(?:[\[{,]|(?=")|\Z)', re.DOTALL
)
_SLICE = 1_000_000
_BRACKET = re.compile(rb"[][{}]")
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)


def read_json(text: str, *, fenced: bool = False) -> Any:
    """The value of a JSON text, or of the first ``` block in it; otherwise a ValueError with the
    cause.

    The quick decoder is tried first; the other accepts half surrogate pairs, as JavaScript does,
    and explains mistakes better.
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


def count_json_values(data: bytes, most: int) -> int:
    """Number of values that a JSON text may have; `most` + 1 for any text that has more.

    Nothing is built of it. Up to `most` it is an estimate from above.
    """
    rough = 0
    # In slices, between which other threads go on.
    for start in range(0, len(data), _SLICE):
        part = data[start : start + _SLICE]
        rough += sum(map(part.count, (b",", b"[", b"{"))) + part.count(b'"') // 4
        if rough > most:
            return sum(1 for _ in islice(_ONE_VALUE.finditer(data), most + 1))
    return rough


def check_json_size(data: bytes, most_values: int) -> None:
    """A ValueError for more values, or deeper ones, than anything should be built of."""
    if count_json_values(data, most_values) > most_values:
        raise ValueError(f"it has more than {most_values:,} values")
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return
    level = 0
    for bracket in _BRACKET.findall(_TEXT.sub(b"", data)):
        level += 1 if bracket in b"[{" else -1
        if level > DEEPEST:
            raise ValueError("it is nested too deeply")


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
