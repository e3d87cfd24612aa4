"""Text and JSON that every database can hold.

PostgreSQL refuses the NUL character, and no database takes half of a surrogate pair, yet models
answer with both. JSON writes NUL as an escape, so it survives inside JSON; elsewhere it becomes
the replacement character, as halves of pairs do everywhere.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder(enc_hook=str).encode


def make_storable(text: str) -> str:
    """The text as a database column can hold it."""
    if text.isascii() and "\0" not in text:
        return text
    return _UNSTORABLE.sub("\ufffd", text)


def json_text(value: Any) -> str:
    """Compact JSON; numbers that are not finite become null, what JSON lacks its `str`.

    The quick encoder does nearly all; what it refuses is cleaned first.
    """
    try:
        return _encode(value).decode()
    except (TypeError, UnicodeEncodeError):
        return _encode(_clean(value)).decode()


def read_json_mapping(text: str | None) -> dict[str, Any]:
    """The mapping in a column that is NULL when it is empty."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(each) for each in value]
    return value
