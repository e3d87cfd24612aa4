"""What a plain scalar means, by the core schema of YAML 1.2.

https://yaml.org/spec/1.2.2/#103-core-schema: `no`, `on` and `12:30` are text.
"""

from __future__ import annotations

import re

_PREFIX = "tag:yaml.org,2002:"
TAGS = frozenset(_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_MAY_BE_NUMBER = frozenset("+-.0123456789")
# By https://yaml.org/spec/1.2.2/#103-core-schema. Longer whole numbers are read as floats: Python
# takes quadratic time for them, and refuses those of more than 4,300 digits.
_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)"
    r"|\.(?:nan|NaN|NAN)"
)

ScalarValue = str | int | float | bool | None


def scalar_value(text: str, style: str, tag: str | None) -> ScalarValue:
    """The value of a scalar as it is written; whatever is not plain is text."""
    if tag is not None:
        return text if tag in ("!", f"{_PREFIX}str") else _resolve_plain(text)
    return text if style else _resolve_plain(text)


def _resolve_plain(text: str) -> ScalarValue:
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in _MAY_BE_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
