from __future__ import annotations

from typing import Any

import pytest

from tallymark.documents.bounded_json import read_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        (' "é" ', "é"),
        ('"\\ud800"', "\ud800"),
        ("12345678901234567890123", 12345678901234567890123),
    ],
)
def test_json_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", "NaN", "[Infinity]", "Sure! {}", "[" * 100_000, "\ud800"]
)
def test_what_is_no_json_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "```json\n1\n```",
        "Here you are:\n```\n1\n```\nAnything else?",
        "``` json5 \n```json\n1```",
        "```json\n1\n```\n```json\n2\n```",
    ],
)
def test_fenced_json_is_read_when_asked_for(text: str) -> None:
    assert read_json(text, fenced=True) == 1


def test_fenced_json_is_refused_otherwise() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        read_json("```json\n1\n```")
