"""Answers that must not pass: nothing at all, and noise in the shape of a good answer."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge

_LARGE = 100_000
_DEEP = 50
# A module's own __getattr__ makes every function that a case may call.
_ANY_NAME = "def __getattr__(name):\n    return lambda *args, **kwargs: {}\n"
_CODE = {
    "an empty program": "",
    "a broken program": "def (:\n",
    "a program that ends at once": "raise SystemExit(0)\n",
    "a program that prints a word": "print('ok')\n",
    "functions that give None": _ANY_NAME.format("None"),
    "functions that give 0": _ANY_NAME.format("0"),
    "functions that give an empty text": _ANY_NAME.format("''"),
    "functions that give true": _ANY_NAME.format("True"),
    "functions that give back what they got": _ANY_NAME.format("args[0] if args else None"),
}


def empty_answers(challenge: Challenge) -> Iterator[tuple[str, Any]]:
    """Nothing, in each of its forms."""
    yield "null", None
    yield "an empty text", ""
    yield "an empty list", []
    yield "an empty mapping", {}
    if challenge.submission.format == "files":
        for what in ("an empty program", "a broken program", "a program that ends at once"):
            yield what, {entry_of(challenge): _CODE[what]}


def random_answers(challenge: Challenge, reference: Any, most: int) -> Iterator[tuple[str, Any]]:
    """Wrong types and sizes first, then noise in the shape of the reference or the schema."""
    rng = random.Random(challenge.name)  # noqa: S311 (the same noise each time, guards nothing)
    if challenge.submission.format == "files":
        for what, code in _CODE.items():
            yield what, {entry_of(challenge): code}
        return
    if challenge.submission.format == "agent":
        yield "an agent that is none", "nothing/at-all"
        return
    shape = reference
    if shape is None and challenge.submission.schema is not None:
        shape = _fit_schema(challenge.submission.schema, rng, 0)
    misfits = (each for each in _make_misfits(challenge, shape) if each[1] != reference)
    yield from islice(chain(misfits, _make_noises(shape, rng)), most)


def entry_of(challenge: Challenge) -> str:
    """The submitted file that is run."""
    options = challenge.evaluator.options
    command = options.get("run", {}).get("command", [])
    named = next((part for part in command if part.endswith(".py")), "solution.py")
    return str(options.get("entry", named))


def _make_misfits(challenge: Challenge, shape: Any) -> Iterator[tuple[str, Any]]:
    large = min(_LARGE, challenge.submission.max_bytes // 2)
    deep: Any = "end"
    for _ in range(_DEEP):
        deep = [deep]
    yield "a word", "answer"
    yield "a number", 7
    yield "true", True
    yield "a long text", "a" * large
    yield "a long list", [0] * (large // 4)
    yield "a deep list", deep
    if isinstance(shape, dict):
        keys = list(shape)
        values = list(shape.values())
        yield "every value null", dict.fromkeys(keys)
        yield "every value true", dict.fromkeys(keys, True)
        yield "every value 0", dict.fromkeys(keys, 0)
        yield "every value an empty list", {key: [] for key in keys}
        yield "every value a huge number", dict.fromkeys(keys, 10**30)
        yield "the values in other places", dict(zip(keys, values[1:] + values[:1], strict=True))


def _make_noises(shape: Any, rng: random.Random) -> Iterator[tuple[str, Any]]:
    for number in count(1):
        if shape is None:
            yield f"random data {number}", {_make_word(rng, 5): _make_word(rng, 8)}
        else:
            yield f"random values in its shape {number}", _scramble(shape, rng)


def _scramble(value: Any, rng: random.Random) -> Any:
    """Other values of the same kind and about the same size."""
    if isinstance(value, bool):
        return rng.random() < 0.5
    if isinstance(value, int):
        return rng.randint(0, max(9, abs(value) * 10))
    if isinstance(value, float):
        return rng.uniform(0, max(1.0, abs(value) * 10))
    if isinstance(value, str):
        return _make_word(rng, max(3, len(value)))
    if isinstance(value, list):
        noisy = [_scramble(each, rng) for each in value]
        rng.shuffle(noisy)
        return noisy
    if isinstance(value, dict):
        return {key: _scramble(each, rng) for key, each in value.items()}
    return value


def _fit_schema(schema: Any, rng: random.Random, level: int) -> Any:
    """A value that fits a JSON Schema, as far as types and properties go."""
    if not isinstance(schema, dict) or level > 8:
        return None
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {key: _fit_schema(each, rng, level + 1) for key, each in properties.items()}
    if kind == "array":
        items = schema.get("items", {})
        return [
            _fit_schema(items, rng, level + 1) for _ in range(max(2, schema.get("minItems", 2)))
        ]
    plain: dict[Any, Any] = {
        "string": _make_word(rng, 8),
        "integer": rng.randint(0, 99),
        "number": rng.random() * 99,
        "boolean": rng.random() < 0.5,
    }
    return plain.get(kind)


def _make_word(rng: random.Random, length: int) -> str:
    return "".join(rng.choices(string.ascii_lowercase + string.digits, k=min(length, 1000)))
