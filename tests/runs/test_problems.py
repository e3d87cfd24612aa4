"""What runs are called."""

from __future__ import annotations

from typing import Any

import pytest

from tallymark.runs.problems import name_suite
from tallymark.runs.record import RunRecord


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ({}, "qa"),
        ({"chosen": {"cases": 3, "of": 1_200, "by": "--tag x"}}, "qa (3 of 1,200 cases)"),
        ({"chosen": {"by": "--only x"}}, "qa (some cases)"),
        ({"rescored_from": "r1"}, "qa (r1 rescored)"),
        ({"chosen": "by hand"}, "qa"),
    ],
)
def test_a_part_and_a_copy_are_not_called_like_the_whole(tags: dict[str, Any], name: str) -> None:
    assert name_suite(RunRecord(id="r2", suite="qa", model="m", tags=tags)) == name
