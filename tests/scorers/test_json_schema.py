from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.scorers.contexts import said

from tallymark.errors import ScorerError
from tallymark.scorers.json_schema import json_schema

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("output", "value", "reason"),
    [
        ('{"name": "Zoë 🎉", "age": 3}', 1.0, "Output fits the schema"),
        ('{"name": "Ann"}', 0.0, "$: 'age' is a required property"),
        ('{"name": null, "age": 3}', 0.0, "$.name: None is not of type 'string'"),
        ("[]", 0.0, "$: [] is not of type 'object'"),
        ("null", 0.0, "$: None is not of type 'object'"),
        ("", 0.0, "Empty output"),
        ("Sure!", 0.0, "Output is not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[" * 100_000, 0.0, "Output is not valid JSON: it is nested too deeply"),
    ],
)
def test_valid_or_not(output: str, value: float, reason: str) -> None:
    score = json_schema(PERSON).score(said(output))
    assert (score.value, score.reason) == (value, reason)


def test_only_the_first_errors_are_listed_each_cut_to_a_line() -> None:
    long = json_schema({"maxLength": 1}).score(said(f'"{"x" * 999}"'))
    assert long.reason == f"$: '{'x' * 116}..."
    three = "; ".join(f"$[{n}]: {n} is not of type 'null'" for n in range(3))
    nulls = json_schema({"items": {"type": "null"}})
    assert nulls.score(said("[0, 1, 2]")).reason == three
    assert nulls.score(said("[0, 1, 2, 3, 4]")).reason == f"{three}; and more"


def test_json_in_a_fence_is_taken_when_asked_for() -> None:
    ctx = said("```json\n[]\n```")
    assert json_schema({"type": "array"}).score(ctx).value == 0.0
    assert json_schema({"type": "array"}, fenced=True).score(ctx).value == 1.0


def test_the_schema_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"const": "é"}', encoding="utf-8")
    assert json_schema(file=str(file)).score(said('"é"')).value == 1.0


def test_an_older_draft_is_understood() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True,
           "minimum": 1}  # fmt: skip
    assert json_schema(old).score(said("1")).value == 0.0
    assert json_schema(old).score(said("2")).value == 1.0


def test_the_specification_s_own_schemas_can_be_referred_to() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert json_schema(schema).score(said('{"type": 1}')).value == 0.0


def test_a_reference_to_a_missing_schema_is_not_scored_0() -> None:
    score = json_schema({"$ref": "#/$defs/gone"}).score(said("1"))
    assert score.value is None
    assert score.error == "json_schema: the schema refers to '/$defs/gone', which it does not have"


def test_nothing_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text("{}")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/any.json"
        score = json_schema({"$ref": url}).score(said("1"))
        server.shutdown()
    assert score.value is None
    assert f"the schema refers to {url!r}" in str(score.error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "json_schema needs one of the options 'schema' and 'file'"),
        ({"schema": {}, "file": "x.json"}, "json_schema needs one of the options"),
        ({"schema": {"type": "text"}}, "the schema is wrong at $.type: 'text' is not valid"),
        ({"schema": "object"}, "the option 'schema' is 'object'"),
        ({"file": "no such file.json"}, "no such file.json cannot be read: No such file"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        json_schema(**options)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "schema.json is not valid JSON: Expecting property name"),
        (b"\xff", "schema.json is not valid JSON: 'utf-8' codec can't decode"),
        (b"[1]", "schema.json holds [1] (list), not a JSON Schema"),
    ],
)
def test_refused_files(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "schema.json"
    file.write_bytes(content)
    with pytest.raises(ScorerError) as refused:
        json_schema(file=str(file))
    assert message in str(refused.value)
