"""The table of a challenge: options are read by it, and the JSON Schema is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tallymark.challenges.challenge_format import EVALUATOR, JUDGE, challenge_schema
from tallymark.documents.reader import MISSING, Reader, read_plain
from tallymark.documents.shapes import TypedShape
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import make_nodes
from tallymark.errors import InvalidInput

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "challenges").glob("*/challenge.*"))
VALIDATOR = jsonschema.Draft202012Validator(challenge_schema())


def read(shape: TypedShape, folder: Path, given: dict[str, Any]) -> Any:
    (folder / "file.txt").write_text("x", encoding="utf-8")
    reader = Reader(Source("", "c", folder))
    value = shape.read(make_nodes(given), reader)
    reader.check()
    assert value is not MISSING
    return value


@pytest.mark.parametrize(
    ("shape", "options", "told"),
    [
        (EVALUATOR, {"type": "judge", "rubric": 5}, "rubric: expected text, but 5 is a number"),
        (EVALUATOR, {"type": "judge", "rubric": "lost.txt"}, "rubric: there is no file 'lost.txt'"),
        (EVALUATOR, {"type": "judge", "pas_at": 5}, "unknown key 'pas_at'; did you mean 'pass_at'"),
        (EVALUATOR, {"type": "judge", "max_rating": 0}, "max_rating: 0 is not a number above 0"),
        (
            EVALUATOR,
            {"type": "judge", "temperature": "hot"},
            "expected a number, but 'hot' is text",
        ),
        (EVALUATOR, {"type": "judge", "temperature": []}, "expected a number, but this is a list"),
        (EVALUATOR, {"type": "suite", "pass_at": 101}, "101 is not a number from 0 to 100"),
        (EVALUATOR, {"type": "suite", "timeout": 0}, "timeout: a time lies above 0"),
        (EVALUATOR, {"type": "suite", "alow": []}, "unknown key 'alow'; did you mean 'allow'"),
        (EVALUATOR, {"fields": {}}, "the key 'type' is missing; write one of deterministic"),
        (JUDGE, {"type": "script", "script": "file.txt", "truth": "t"}, "unknown key 'truth'"),
        (JUDGE, {"type": "scorer", "scorer": "contains", "threshold": 2}, "a number from 0 to 1"),
    ],
)
def test_a_wrong_option_is_told(
    shape: TypedShape, options: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(shape, tmp_path, options)
    assert told in str(raised.value)


def test_null_is_a_temperature_and_x_keys_are_the_authors(tmp_path: Path) -> None:
    given = {"type": "judge", "rubric": "file.txt", "temperature": None}
    assert read(EVALUATOR, tmp_path, {**given, "x-note": 1}) == given


def test_the_type_alone_is_enough_where_it_needs_no_options() -> None:
    reader = Reader(Source(""))
    assert EVALUATOR.read(make_nodes("reported"), reader) == {"type": "reported"}
    assert reader.problems == []


def test_every_reference_of_the_schema_leads_to_a_named_part() -> None:
    def references(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            yield from [part["$ref"]] if "$ref" in part else []
            part = list(part.values())
        if isinstance(part, list):
            for each in part:
                yield from references(each)

    schema = challenge_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert {each.removeprefix("#/$defs/") for each in references(schema)} == set(schema["$defs"])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_fit_the_schema(path: Path) -> None:
    VALIDATOR.validate(read_plain(path, "challenge"))
