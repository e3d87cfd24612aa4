"""The types of columns, alike on both databases, and the metadata that all tables are in.

Times are seconds since 1970, UTC, as floats: the same on both databases and in the records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import BigInteger, Double, Integer, MetaData, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator

from tallymark.store.storable_text import json_text, make_storable

if TYPE_CHECKING:
    from sqlalchemy import Dialect

RowKey = BigInteger().with_variant(Integer, "sqlite")
"""A whole number that the database gives out; SQLite does so for this type only."""


class CodePointText(TypeDecorator[str]):
    """Text that is compared and sorted by code points on every database."""

    # PostgreSQL would otherwise sort by the server's language.
    impl = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
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


metadata = MetaData()
