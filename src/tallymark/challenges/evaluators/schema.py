"""JSON Schema for submissions; what validates them is loaded when first needed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tallymark.challenges.evaluators.schema_validator import SchemaValidator


def find_schema_problems(value: object, schema: dict[str, Any]) -> list[str]:
    """The first few things in a value that a schema does not accept."""
    return _open_validator(msgspec.json.encode(schema)).problems(value)


def check_schema(schema: dict[str, Any]) -> None:
    """InvalidInput when it is no JSON Schema."""
    _open_validator(msgspec.json.encode(schema))


@lru_cache(maxsize=32)
def _open_validator(encoded: bytes) -> SchemaValidator:
    # The package jsonschema is heavy, and most submissions are received without a schema.
    from tallymark.challenges.evaluators.schema_validator import SchemaValidator  # noqa: PLC0415

    return SchemaValidator(msgspec.json.decode(encoded))
