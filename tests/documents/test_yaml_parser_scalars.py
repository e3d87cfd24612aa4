"""Plain scalars mean what YAML 1.2 says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallymark.documents.yaml_parser import scalar_value


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "y", "n", "12:30", "1_000", "0b1", "1e"]
)
def test_what_older_yaml_misread_is_text(text: str) -> None:
    assert scalar_value(text, "", None) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None),
        ("true", True), ("False", False),
        ("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("0o17", 15), ("0xfF", 255),
        ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-1.5E-2", -0.015),
        (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_what_is_not_text(text: str, value: Any) -> None:
    read = scalar_value(text, "", None)
    assert (read, type(read)) == (value, type(value))


def test_not_a_number_is_one() -> None:
    value = scalar_value(".nan", "", None)
    assert isinstance(value, float)
    assert math.isnan(value)


def test_quotes_make_text() -> None:
    assert scalar_value("42", '"', None) == "42"


@pytest.mark.parametrize(("tag", "value"), [("str", "42"), ("int", 42)])
def test_a_tag_decides(tag: str, value: Any) -> None:
    assert scalar_value("42", "'", f"tag:yaml.org,2002:{tag}") == value


def test_a_huge_number_is_read_in_no_time() -> None:
    assert scalar_value("9" * 100_000, "", None) == math.inf
