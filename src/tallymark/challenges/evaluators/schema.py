"""JSON Schema for submissions, hardened: what a competitor sends cannot make a check run long.

Patterns are searched with a time limit, and `uniqueItems` compares by hash instead of pairwise.
Nothing is fetched from the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.suites.checks.patterns import compile_regex
from tallymark.text import shorten

MAX_SHOWN = 5


def schema_problems(value: object, schema: dict[str, Any]) -> list[str]:
    """The first few things in a value that a schema does not accept."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 (comes with jsonschema)

    validator = _validator(msgspec.json.encode(schema))
    try:
        errors = list(islice(validator.iter_errors(value), MAX_SHOWN))
    except Unresolvable as error:
        raise InvalidInput(f"the schema refers to {error.ref!r}, which it does not have") from None
    return [f"{shorten(error.json_path)}: {shorten(error.message)}" for error in errors]


def check_schema(schema: dict[str, Any]) -> None:
    """InvalidInput when it is no JSON Schema."""
    _validator(msgspec.json.encode(schema))


@lru_cache(maxsize=32)
def _validator(encoded: bytes) -> Any:
    import jsonschema  # type: ignore[import-untyped]  # noqa: PLC0415 (heavy)
    from jsonschema_specifications import (  # type: ignore[import-untyped]  # noqa: PLC0415
        REGISTRY,
    )

    schema = msgspec.json.decode(encoded)
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        message = f"the schema is wrong at {error.json_path}: {shorten(error.message)}"
        raise InvalidInput(message) from None
    safe = {"pattern": _pattern, "uniqueItems": _unique}
    return jsonschema.validators.extend(kind, safe)(schema, registry=REGISTRY)


def _pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[Any]:
    import jsonschema  # noqa: PLC0415 (heavy)

    if not isinstance(value, str):
        return
    try:
        found = compile_regex(pattern)(value)
    except TimeoutError:
        found = False
    if not found:
        yield jsonschema.ValidationError(f"{shorten(repr(value), 60)} does not match {pattern!r}")


def _unique(_: Any, wanted: bool, value: object, __: Any) -> Iterator[Any]:
    import jsonschema  # noqa: PLC0415 (heavy)

    if wanted and isinstance(value, list):
        encoder = msgspec.json.Encoder(order="sorted")
        if len({encoder.encode(_same(item)) for item in value}) < len(value):
            yield jsonschema.ValidationError("an item is there twice")


def _same(value: object) -> object:
    """Numbers in one form, so that 1 and 1.0 are the same item."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) > 2**53 else float(value)
    if isinstance(value, list):
        return [_same(item) for item in value]
    return {key: _same(item) for key, item in value.items()} if isinstance(value, dict) else value
