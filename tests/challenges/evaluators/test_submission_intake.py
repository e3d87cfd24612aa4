"""What is refused before it is judged, and what is only warned of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.challenge import Submission
from tallymark.challenges.evaluators.submission_intake import (
    MAX_LEVELS,
    find_schema_problems,
    receive_submission,
)
from tallymark.errors import InvalidInput
from tallymark.scorers import schema_validator

JSON = Submission(max_bytes=1000)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "answer",
    [None, True, 0, -1.5, "", "text", [], {}, {"a": [1, {"b": None}]}, nested(MAX_LEVELS)],
    ids=str,
)
def test_json_is_taken_as_it_is(answer: Any) -> None:
    received = receive_submission(answer, JSON)
    assert (received.answer, received.warnings, received.refused) == (answer, (), None)


@pytest.mark.parametrize(
    ("submission", "answer", "told"),
    [
        (JSON, nested(MAX_LEVELS + 1), "nested deeper than 64 levels"),
        (JSON, nested(100_000), "nested deeper than 64 levels"),
        (JSON, "x" * 1000, "larger than 1,000 bytes"),
        (JSON, ["x"] * 400, "larger than 1,000 bytes"),
        (JSON, [[]] * 1001, "larger than 1,000 bytes"),
        (JSON, 10**5000, "larger than 1,000 bytes"),
        (JSON, {1: 2}, "the key 1 (int), and keys are text"),
        (JSON, {"a": {1, 2}}, "which is no JSON value"),
        (JSON, b"raw", "which is no JSON value"),
        (Submission(format="text"), {"a": 1}, "must be text"),
        (Submission(format="text"), None, "must be text"),
        (Submission(format="files"), "code", "must map file names to texts"),
        (Submission(format="files"), {}, "must map file names to texts"),
        (Submission(format="files"), {"../a": ""}, "a name is a path below the folder"),
        (Submission(format="files"), {"/etc/x": ""}, "has a file '/etc/x'"),
        (Submission(format="files"), {"a": 1}, "the file a must be text"),
        (Submission(format="files"), {"a": "", "a/b": ""}, "a cannot be both a file and a folder"),
        (Submission(format="files"), {str(n): "" for n in range(201)}, "more than 200 files"),
        (Submission(format="agent"), " ", "must be the name of a model"),
        (Submission(format="agent"), ["http://x"], "must be the name of a model"),
        (Submission(format="agent"), "http://x\nHost: y", "one line"),
        (Submission(format="agent"), "x" * 501, "at most 500 characters"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
def test_what_cannot_be_judged_is_refused(submission: Submission, answer: Any, told: str) -> None:
    received = receive_submission(answer, submission)
    assert received.refused is not None
    assert told in received.refused
    assert received.answer is None


@pytest.mark.parametrize(
    "number",
    [float("nan"), float("inf"), -float("inf"), 10**400],
    ids=["nan", "inf", "-inf", "big"],
)
def test_numbers_that_are_none_are_null(number: float) -> None:
    received = receive_submission({"a": [number]}, JSON)
    assert received.answer == {"a": [None]}
    assert received.warnings[0]["severity"] == "warning"


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert receive_submission("a\ud800", JSON).answer == "a?"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_what_was_received_is_received_again_without_a_change(value: Any) -> None:
    once = receive_submission(value, Submission()).answer
    again = receive_submission(once, Submission())
    assert (again.answer, again.warnings) == (once, ())


SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}}


def test_a_schema_warns() -> None:
    (warning,) = receive_submission({"a": "1"}, Submission(schema=SCHEMA)).warnings
    assert warning == {
        "message": "the schema is not met: $.a: '1' is not of type 'number'",
        "severity": "warning",
        "dimension": None,
    }


def test_a_schema_with_a_dimension_zeroes_it() -> None:
    submission = Submission(schema=SCHEMA, schema_dimension="correctness")
    (warning,) = receive_submission({}, submission).warnings
    assert (warning["severity"], warning["dimension"]) == ("error", "correctness")


def test_many_mistakes_are_not_all_told() -> None:
    schema = {"items": {"type": "number"}}
    assert len(receive_submission(["x"] * 50, Submission(schema=schema)).warnings) == 5


SLOW = "^(a|a)+$"
ENDLESS = "a" * 60 + "!"
"""Matching it against `SLOW` by trying all ways would take years."""
TOO_LONG = "$: the patterns of the schema take more than 1 s to match"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": SLOW}, ENDLESS),
        ({"items": {"pattern": SLOW}}, [ENDLESS] * 1000),  # one time limit for all of them
        ({"propertyNames": {"pattern": SLOW}}, {ENDLESS: 1}),
        ({"patternProperties": {SLOW: {"type": "number"}}}, {ENDLESS: 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {ENDLESS: 1}),
        ({"properties": {"a": {"patternProperties": {SLOW: {}}}}}, {"a": {ENDLESS: 1}}),
    ],
    ids=["text", "many texts", "names", "keys", "other keys", "nested"],
)
def test_a_pattern_cannot_be_made_to_run_long(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_validator, "TIME_LIMIT", 0.1)
    assert find_schema_problems(value, schema) == [TOO_LONG]


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"child": value}
    return value


def test_alternatives_cannot_be_made_to_run_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_validator, "_MOST_SECONDS", 0.2)
    again = {"child": {"$ref": "#"}}
    one = {"type": "object", "properties": again | {"a": {"type": "string"}}}
    other = {"type": "object", "properties": again, "required": ["b"]}
    schema = {"oneOf": [{"type": "string"}, one, other]}
    assert find_schema_problems(nest(60), schema) == [
        "$: the check against the schema takes more than 0.2 s"
    ]


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"multipleOf": 0.5}, 10**400), ({"uniqueItems": True}, ["\ud800", "a", "a"])],
)
def test_a_value_that_cannot_be_checked_is_a_problem_of_the_value(
    schema: dict[str, Any], value: Any
) -> None:
    (problem,) = find_schema_problems(value, schema)
    assert problem.startswith("$: it cannot be checked against the schema: ")


def test_patterns_beside_unevaluated_properties_are_refused() -> None:
    schema = {"allOf": [{"patternProperties": {SLOW: {}}}], "unevaluatedProperties": False}
    with pytest.raises(InvalidInput, match="both patternProperties and unevaluatedProperties"):
        find_schema_problems({ENDLESS: 1}, schema)


@pytest.mark.parametrize(
    "schema",
    [{"items": {"pattern": "a{9999999}"}}, {"$defs": {"x": {"patternProperties": {"(?>a": {}}}}}],
)
def test_patterns_that_cannot_be_searched_are_refused_before_anybody_submits(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(InvalidInput, match=r"regular expression|the schema is wrong"):
        find_schema_problems([], schema)


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"properties": {"pattern": {"const": {"pattern": "["}}}}, {}, []),
        ({"pattern": "^a+$"}, "aaa", []),
        ({"pattern": "^a+$"}, 7, []),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": 1, "x": "y"}, []),
        (
            {"patternProperties": {"^n": {"type": "number"}}},
            {"n1": "one"},
            ["$.n1: 'one' is not of type 'number'"],
        ),
        ({"properties": {"a": {}}, "additionalProperties": True}, {"b": 1}, []),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, []),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b": 2},
            ["$: the key 'b' is not allowed"],
        ),
        (
            {"patternProperties": {"^n": {}}, "additionalProperties": {"type": "string"}},
            {"n1": 1, "b": 2},
            ["$.b: 2 is not of type 'string'"],
        ),
    ],
)
def test_keys_are_checked_as_json_schema_says(
    schema: dict[str, Any], value: Any, problems: list[str]
) -> None:
    assert find_schema_problems(value, schema) == problems


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, 2], True),
        ([1, 1.0], False),
        ([1, True], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}], False),
        ([[1], ["1"]], True),
        ([10**30, 10**30 + 1], True),
    ],
    ids=str,
)
def test_unique_items_are_compared_as_json(items: list[Any], unique: bool) -> None:
    assert (find_schema_problems(items, {"uniqueItems": True}) == []) == unique


def test_many_items_are_compared_without_comparing_pairs() -> None:
    """Pairwise, these 30,000 mappings would take minutes."""
    items = [{"a": {"b": number}} for number in range(30_000)]
    assert find_schema_problems(items, {"uniqueItems": True}) == []
