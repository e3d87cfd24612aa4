"""What a judge may answer, and what is its failure."""

from __future__ import annotations

import pytest

from tallymark.challenges.versus.pairings import MAX_REASON_CHARS, Ruling, read_ruling


@pytest.mark.parametrize(
    ("answer", "breached", "reason"),
    [
        (True, True, ""),
        (False, False, ""),
        ({"breached": True}, True, ""),
        ({"breached": False, "reason": "it held"}, False, "it held"),
        ({"breached": False, "reason": "x" * 9000}, False, "x" * MAX_REASON_CHARS),
    ],
    ids=["true", "false", "mapping", "reason", "long reason"],
)
def test_an_answer_is_a_bool_or_a_mapping(answer: object, breached: bool, reason: str) -> None:
    assert read_ruling(answer) == Ruling(breached=breached, reason=reason)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, "the judge answered None"),
        (1, "the judge answered 1"),
        ("yes", "the judge answered 'yes'"),
        ({}, "the judge's 'breached' is None"),
        ({"breached": 1}, "the judge's 'breached' is 1"),
        ({"breached": True, "reason": 7}, "the judge's 'reason' is 7"),
    ],
    ids=["none", "number", "text", "empty", "number for bool", "reason"],
)
def test_any_other_answer_is_a_failure_and_nobodys_point(answer: object, error: str) -> None:
    ruling = read_ruling(answer)
    assert (ruling.breached, ruling.reason) == (None, "")
    assert (ruling.error or "").startswith(error)
