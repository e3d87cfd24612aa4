"""JSON in and out, and values of unknown shape.

Readers of foreign files take a value "as a mapping, if it is one" and treat anything else as
unknown, instead of failing.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec

from tallymark.errors import Place, TraceError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(raw: bytes, place: Place | None = None, *, nan_is_null: bool = True) -> Any:
    """The value of a JSON text.

    The quick decoder is tried first. What it refuses but real writers emit (NaN, half of a
    surrogate pair) gets a second chance: NaN reads as null unless the caller wants it refused.
    """
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    except RecursionError:
        raise TraceError("the JSON is nested too deeply to read", place=place) from None
    constant = _read_null if nan_is_null else _refuse_constant
    try:
        text = raw.decode("utf-8")
        return _mend_surrogates(json.loads(text, parse_constant=constant, parse_float=_read_finite))
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8 text (byte {error.start + 1})", place=place) from None
    except RecursionError:
        raise TraceError("the JSON is nested too deeply to read", place=place) from None
    except ValueError as error:
        raise TraceError(f"not valid JSON: {error}", place=place) from None


def _read_null(_: str) -> None:
    return None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _read_finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value


def _mend_surrogates(value: Any) -> Any:
    """The value with half surrogate pairs replaced, so that it can be written as UTF-8 again."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mend_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_mend_surrogates(key): _mend_surrogates(each) for key, each in value.items()}
    return value


def compact(value: Any) -> str:
    """A value as compact JSON text; what JSON does not know is written as its `str`."""
    return msgspec.json.encode(value, enc_hook=str).decode()


def to_json_safe(value: Any) -> Any:
    """A copy of plain data without NaN and infinities, which JSON cannot hold: they become null.

    Without recursion: what can be stored, however deep, can be written.
    """
    whole = [value]
    left: list[Any] = [whole]
    while left:
        part = left.pop()
        for key, each in part.items() if isinstance(part, dict) else enumerate(part):
            if isinstance(each, dict | list):
                part[key] = each.copy()
                left.append(part[key])
            elif isinstance(each, float) and not math.isfinite(each):
                part[key] = None
    return whole[0]


def as_mapping(value: Any) -> dict[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """A string as it is, nothing as an empty one, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact(value)


def as_label(value: Any) -> str | None:
    """A non-empty string or a number as a string, else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def as_amount(value: Any) -> float | None:
    """A finite number of at least zero, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def as_count(value: Any) -> int | None:
    """A whole number of at least zero, else None; OTLP's JSON writes them as strings."""
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    # 2**63 has 19 digits; what is longer is not even converted.
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if as_amount(value) is None or value >= 2**63:
        return None
    return int(value)


def to_unix_ms(value: Any) -> float | None:
    """Milliseconds since 1970 of an ISO 8601 time (UTC when it names no zone), else None."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
