"""`semantic`: near in meaning, computed offline."""

from __future__ import annotations

from typing import Any

import pytest
from tests.suites.checks.built_checks import checked

BOOKS = "You may return a book that you have not opened for 30 days."


@pytest.mark.parametrize(
    ("config", "output", "passed"),
    [
        (
            {"expected": BOOKS, "threshold": 0.6},
            "Unopened books can be sent back within 30 days.",
            True,
        ),
        ({"expected": BOOKS, "threshold": 0.6}, "The weather is nice today.", False),
        ({"expected": BOOKS, "threshold": 1}, BOOKS, True),
        ({"expected": BOOKS, "threshold": 0.01}, "", False),
        (BOOKS, BOOKS, True),
        (BOOKS, "\n", False),
    ],
)
def test_meaning(config: Any, output: str, passed: bool) -> None:
    result = checked("semantic", config, output)
    assert (result.passed, result.error) == (passed, None)


def test_the_value_is_kept_but_has_no_name_for_formulas() -> None:
    result = checked("semantic", BOOKS, BOOKS)
    assert (result.value, result.name) == (1.0, None)
