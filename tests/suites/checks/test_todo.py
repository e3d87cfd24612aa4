"""`todo`: a check that is still to be written lets no case pass."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked

from tallymark.runs.case_verdict import judge_case


@pytest.mark.parametrize("output", ["", "anything"])
def test_it_cannot_be_done(output: str) -> None:
    result = checked("todo", "that it is polite", output)
    assert result.error == "a check is still to be written: that it is polite"
    assert judge_case([result]) == "error"


def test_what_fails_beside_it_fails() -> None:
    found = [checked("todo", "tone"), checked("match", "b", "a")]
    assert judge_case(found) == "failed"
