"""JSON as agents write it."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

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


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
