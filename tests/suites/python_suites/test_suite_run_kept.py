"""What a run that is kept holds in memory, and what it reads from its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.runs.ongoing_run import MOST_HELD
from tallymark.runs.run import KeptResults
from tallymark.store import open_store
from tallymark.suites import Suite, Test, run


@pytest.mark.parametrize(("more", "kept"), [(0, False), (1, True)])
def test_many_results_are_read_from_the_open_store_in_the_order_of_the_tests(
    tmp_path: Path, more: int, *, kept: bool
) -> None:
    names = [f"case {number}" for number in reversed(range(MOST_HELD + more))]
    suite = Suite(
        "large", [Test(name, name, scorer="exact_match", expected="yes") for name in names]
    )
    with open_store(str(tmp_path / "tally.db")) as store:
        found = run(suite, lambda _: "yes", store=store)
        assert isinstance(found.results, KeptResults) == kept
        assert [each.case for each in found.results] == names
        assert found.counts["passed"] == len(names)
        assert found.results[1].output == "yes"


def test_many_results_are_read_again_from_a_store_that_was_opened_for_the_run(
    tmp_path: Path,
) -> None:
    names = [f"case {number}" for number in range(MOST_HELD + 1)]
    suite = Suite("large", [Test(name, "") for name in names], scorers=["exact_match"])
    found = run(suite, lambda _: "yes", store=tmp_path / "tally.db")
    assert isinstance(found.results, KeptResults)
    assert [each.case for each in found.results] == names
