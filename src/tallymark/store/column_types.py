"""The types of columns, alike on both databases; the text and JSON that both can hold; metadata.

Times are seconds since 1970, UTC, as floats: the same on both databases and in the records.

PostgreSQL refuses the NUL character, and no database takes half of a surrogate pair, yet models
answer with both. JSON writes NUL as an escape, so it survives inside JSON; elsewhere it becomes
the replacement character, as halves of pairs do everywhere.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import BigInteger, Double, Index, Integer, MetaData, Text
from sqlalchemy.types import TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy import Column, Dialect

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = msgspec.json.Encoder(enc_hook=str).encode
_decode_numbers = msgspec.json.Decoder(dict[str, float | None]).decode

metadata = MetaData()
"""All tables are in it."""
RowKey = BigInteger().with_variant(Integer, "sqlite")
"""A whole number that the database gives out; SQLite does so for this type only."""


class CodePointText(TypeDecorator[str]):
    """Text that is compared and sorted by code points on every database."""

    # PostgreSQL would otherwise sort by the server's language.
    impl = Text().with_variant(Text(collation="C"), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Text on its way in."""
        return None if value is None else make_storable(value)


class FiniteFloat(TypeDecorator[float]):
    """A float, or NULL when it is not known; one that is not finite is not known."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002
        """A number on its way in."""
        return value if value is not None and math.isfinite(value) else None


class JsonText(TypeDecorator[Any]):
    """Plain data as JSON text: never searched by the database, so it need not be understood."""

    impl = Text  # not `jsonb`, which refuses the NUL characters that models sometimes emit
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        """Data on its way in."""
        return json_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Data on its way out."""
        return None if value is None else msgspec.json.decode(value)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index of the rows that meet a condition, which it learns when tables are made.

    SQLAlchemy loads all that it knows of a database where an option of that database is named.
    """
    return Index(name, *columns, unique=unique, info={"where": where})


def bind_value(column: Column[Any], value: Any) -> Any:
    """A value as its column takes it, for a statement that is written as text."""
    process: Any = getattr(column.type, "process_bind_param", None)  # of our own types
    return value if process is None else process(value, None)


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


def read_numbers(text: str | None) -> dict[str, float | None]:
    """The numbers in such a column: each a float, however it was written."""
    return {} if text is None else _decode_numbers(text)


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
