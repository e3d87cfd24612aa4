"""A skip that is not on the list fails."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.skips import SKIPS, refuse_skip


def report(outcome: Literal["passed", "failed", "skipped"], reason: str) -> pytest.TestReport:
    said = ("tests/test_a.py", 1, f"Skipped: {reason}")
    return pytest.TestReport("tests/test_a.py::test_a", ("a", 1, "a"), {}, outcome, said, "setup")


def test_a_skip_for_a_listed_reason_stays_one() -> None:
    assert refuse_skip(report("skipped", next(iter(SKIPS)))).outcome == "skipped"


def test_another_skip_fails_and_says_where_the_list_is() -> None:
    refused = refuse_skip(report("skipped", "could not import 'pyarrow'"))
    assert refused.outcome == "failed"
    assert refused.longrepr == (
        "skipped for a reason that tests/skips.py does not list: could not import 'pyarrow'"
    )


def test_a_file_that_is_left_out_whole_fails_too() -> None:
    said = ("tests/test_a.py", 1, "Skipped: not today")
    refused = refuse_skip(pytest.CollectReport("tests/test_a.py", "skipped", said, []))
    assert refused.outcome == "failed"


def test_what_is_expected_to_fail_is_no_skip() -> None:
    expected = report("skipped", "")
    expected.wasxfail = "reason: later"
    assert refuse_skip(expected).outcome == "skipped"
