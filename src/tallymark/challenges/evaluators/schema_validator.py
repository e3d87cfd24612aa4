"""JSON Schema, hardened: what a competitor sends cannot make a check run long.

Patterns are searched with a time limit, and `uniqueItems` compares by hash instead of pairwise.
Nothing is fetched from the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import compile_regex
from tallymark.text import shorten

MAX_SHOWN = 5


class SchemaValidator:
    """A schema of an organiser's; InvalidInput when it is none."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            message = f"the schema is wrong at {error.json_path}: {shorten(error.message)}"
            raise InvalidInput(message) from None
        safe = {"pattern": _check_pattern, "uniqueItems": _check_unique}
        self._validator = jsonschema.validators.extend(kind, safe)(schema, registry=REGISTRY)

    def problems(self, value: object) -> list[str]:
        """The first few things in a value that the schema does not accept."""
        return [f"{place}: {message}" for place, message in self.findings(value, MAX_SHOWN)]

    def findings(self, value: object, most: int) -> list[tuple[str, str]]:
        """So many of them, each with its place in the value."""
        try:
            errors = list(islice(self._validator.iter_errors(value), most))
        except Unresolvable as error:
            message = f"the schema refers to {error.ref!r}, which it does not have"
            raise InvalidInput(message) from None
        return [(shorten(error.json_path), shorten(error.message)) for error in errors]


def _check_pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[Any]:
    if not isinstance(value, str):
        return
    try:
        found = compile_regex(pattern)(value)
    except TimeoutError:
        found = False
    if not found:
        yield jsonschema.ValidationError(f"{shorten(repr(value), 60)} does not match {pattern!r}")


def _check_unique(_: Any, wanted: bool, value: object, __: Any) -> Iterator[Any]:
    if wanted and isinstance(value, list):
        encoder = msgspec.json.Encoder(order="sorted")
        if len({encoder.encode(_normalise(item)) for item in value}) < len(value):
            yield jsonschema.ValidationError("an item is there twice")


def _normalise(value: object) -> object:
    """Numbers in one form, so that 1 and 1.0 are the same item."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) > 2**53 else float(value)
    if isinstance(value, list):
        return [_normalise(item) for item in value]
    if isinstance(value, dict):
        return {key: _normalise(item) for key, item in value.items()}
    return value
