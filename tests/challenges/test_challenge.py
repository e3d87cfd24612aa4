"""What a competitor is told of a challenge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallymark.challenges.challenge import Challenge, Evaluator

PLAIN = Challenge(name="c", title="C", goal="g", version="v", evaluator=Evaluator(type="reported"))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, "until_won"),
        ({"generate": "generate.py"}, "every"),
        ({"generate": "generate.py", "rated": "first"}, "first"),
        ({"kind": "versus"}, None),
    ],
)
def test_what_is_told_says_which_attempts_are_rated(
    changes: dict[str, Any], rule: str | None
) -> None:
    challenge = msgspec.structs.replace(PLAIN, **changes)
    told = challenge.to_public()
    assert (told.get("rated"), "generate" in told) == (rule, False)
    assert msgspec.convert(told, Challenge).match_rule == challenge.match_rule == rule
