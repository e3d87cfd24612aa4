"""JSON Schema for untrusted values: no value makes a check run long.

Every pattern of a schema is searched by an engine that stops, with one time limit for the whole
check, and `uniqueItems` compares by hash instead of pairwise. Nothing is fetched from the network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing.exceptions import Unresolvable

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import TIME_LIMIT, compile_regex
from tallymark.text import format_number, shorten

MAX_SHOWN = 5
_OF_SCHEMAS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
"""Keywords that map names chosen by the author to schemas."""
_OF_DATA = {"const", "default", "enum", "examples"}
_MOST_SECONDS = 5.0
"""Processor time for one check; a megabyte of ordinary JSON takes less than that."""
_SLOW_PATTERNS = f"the patterns of the schema take more than {format_number(TIME_LIMIT)} s to match"
_until = ContextVar("until", default=0.0)
_left = ContextVar("left", default=0.0)
"""Seconds of processor time that the check under way may still spend on patterns."""


class SchemaValidator:
    """A JSON Schema, of draft 2020-12 unless it names another; InvalidInput when it is none."""

    def __init__(self, schema: dict[str, Any]) -> None:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            message = f"the schema is wrong at {error.json_path}: {shorten(error.message)}"
            raise InvalidInput(message) from None
        words = list(_list_keywords(schema))
        for word, value in words:
            patterns = value if word == "patternProperties" else [value]
            if word in {"pattern", "patternProperties"}:
                for pattern in patterns:
                    compile_regex(pattern)  # refused here, not at a submission
        if {"patternProperties", "unevaluatedProperties"} <= {word for word, _ in words}:
            # The library matches these together with an engine of its own that cannot be stopped.
            raise InvalidInput(
                "the schema has both patternProperties and unevaluatedProperties",
                hint="use additionalProperties instead of unevaluatedProperties",
            )
        safe = kind.VALIDATORS | {
            "pattern": _check_pattern,
            "patternProperties": _check_pattern_properties,
            "additionalProperties": _check_additional_properties,
            "uniqueItems": _check_unique,
        }
        limited = {word: _limit(check) for word, check in safe.items()}
        self._validator = jsonschema.validators.extend(kind, limited)(schema, registry=REGISTRY)

    def problems(self, value: object) -> list[str]:
        """The first few things in a value that the schema does not accept."""
        return [f"{place}: {message}" for place, message in self.findings(value, MAX_SHOWN)]

    def findings(self, value: object, most: int) -> list[tuple[str, str]]:
        """The first `most` of them, each with its place in the value."""
        _left.set(TIME_LIMIT)
        _until.set(time.thread_time() + _MOST_SECONDS)
        try:
            errors = list(islice(self._validator.iter_errors(value), most))
        except Unresolvable as error:
            message = f"the schema refers to {error.ref!r}, which it does not have"
            raise InvalidInput(message) from None
        except TimeoutError as error:
            return [("$", str(error))]
        except (RecursionError, OverflowError, ValueError) as error:
            return [("$", f"it cannot be checked against the schema: {shorten(str(error))}")]
        return [(shorten(error.json_path), shorten(error.message)) for error in errors]


def _list_keywords(schema: object) -> Iterator[tuple[str, Any]]:
    """All keywords of a schema and of those inside it, with their values."""
    if isinstance(schema, list):
        for item in schema:
            yield from _list_keywords(item)
    elif isinstance(schema, dict):
        for word, value in schema.items():
            yield word, value
            if word in _OF_SCHEMAS and isinstance(value, dict):
                yield from _list_keywords(list(value.values()))
            elif word not in _OF_DATA:
                yield from _list_keywords(value)


def _limit(check: Callable[..., Any]) -> Callable[..., Any]:
    """A keyword that gives up when the whole check has taken too long.

    Alternatives that refer to each other take time that grows with the power of the depth.
    """

    def limited(*given: Any) -> Any:
        if time.thread_time() > _until.get():
            limit = format_number(_MOST_SECONDS)
            raise TimeoutError(f"the check against the schema takes more than {limit} s")
        return check(*given)

    return limited


def _search(pattern: str, text: str) -> bool:
    search, left = compile_regex(pattern), _left.get()
    if left <= 0:
        raise TimeoutError(_SLOW_PATTERNS)
    began = time.thread_time()
    try:
        return search(text, left)
    except TimeoutError:
        raise TimeoutError(_SLOW_PATTERNS) from None
    finally:
        _left.set(left - (time.thread_time() - began))


def _check_pattern(_: Any, pattern: str, value: object, __: Any) -> Iterator[Any]:
    if isinstance(value, str) and not _search(pattern, value):
        yield jsonschema.ValidationError(f"{shorten(repr(value), 60)} does not match {pattern!r}")


def _check_pattern_properties(
    validator: Any, patterns: dict[str, Any], value: object, _: Any
) -> Iterator[Any]:
    if isinstance(value, dict):
        for pattern, schema in patterns.items():
            for key in value:
                if _search(pattern, key):
                    yield from validator.descend(value[key], schema, path=key, schema_path=pattern)


def _check_additional_properties(
    validator: Any, allowed: Any, value: object, schema: dict[str, Any]
) -> Iterator[Any]:
    if not isinstance(value, dict) or allowed is True:
        return
    known: Iterable[str] = schema.get("properties", ())
    patterns: Iterable[str] = schema.get("patternProperties", ())
    for key in value:
        if key not in known and not any(_search(pattern, key) for pattern in patterns):
            if allowed is False:
                yield jsonschema.ValidationError(f"the key {shorten(repr(key), 60)} is not allowed")
            else:
                yield from validator.descend(value[key], allowed, path=key)


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
