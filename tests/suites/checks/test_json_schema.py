"""`json_schema`: JSON of the right shape, alone or in a code block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.suites.checks.built_checks import built, checked, subject

from tallymark.errors import InvalidInput
from tallymark.suites.checks.check_definition import Checks

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("output", "passed"),
    [
        ('{"n": 1}', True),
        (' {"n": 1}\n', True),
        ('Here:\n```json\n{"n": 1}\n```\nDone.', True),
        ('{"n": "1"}', False),
        ("{}", False),
        ("[1]", False),
        ("n: 1", False),
        ("", False),
        ('{"n": NaN}', False),
        ("[" * 100_000, False),
        ('{"n": 1, "é": "日本"}', True),
    ],
)
def test_answers(output: str, passed: bool) -> None:
    result = checked("json_schema", SCHEMA, output)
    assert (result.passed, result.error) == (passed, None)
    assert result.reason


def test_a_schema_in_a_file_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    check = built("json_schema", "s.json", folder=tmp_path)
    assert Checks.of([check]).run(subject('{"n": 1}'))[0].passed


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"type": "intger"}, "the schema is wrong"),
        ({"properties": []}, "the schema is wrong"),
        ("none.json", "cannot be read"),
    ],
)
def test_what_is_refused(config: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        built("json_schema", config)
    assert said in str(caught.value)


def test_a_reference_that_leads_nowhere_is_an_error_of_the_check() -> None:
    result = checked("json_schema", {"$ref": "#/$defs/none"}, "{}")
    assert result.passed is False
    assert result.error is not None
