"""The difference of two runs over the cases that both ran."""

from __future__ import annotations

import pytest

from tallymark.formula import Formula
from tallymark.runs.differences import Difference, SharedCases
from tallymark.runs.record import CaseResult, CaseStatus
from tallymark.runs.statistics import Interval
from tallymark.runs.tally import Tally

SUCCESS = Formula.parse("success_pct")
WORDS: dict[str, CaseStatus] = {"+": "passed", "-": "failed", "!": "error"}


def run(marks: str, *, first: int = 0, name: str = "case{}") -> list[CaseResult]:
    return [
        CaseResult(case=name.format(first + at), status=WORDS[mark], cost=0.01, latency=1.0)
        for at, mark in enumerate(marks)
    ]


def difference(shared: SharedCases, formula: Formula = SUCCESS) -> Difference:
    return shared.differences([(formula, False)])[0]


def test_only_cases_that_both_ran_count() -> None:
    shared = SharedCases([*run("++--"), *run("+", first=9)], [*run("+-!-"), *run("-", first=7)])
    assert shared.names == ["case0", "case1", "case3"]
    assert difference(shared).value == pytest.approx(-100 / 3)


def test_named_evals_too_are_compared_over_shared_cases() -> None:
    first, second = run("+-+", name="qa[{}]"), run("++!", name="qa[{}]")
    assert difference(SharedCases(first, second), Tally(first).formula("qa")).value == 0.5


def test_it_has_an_interval_a_p_value_and_how_many_could_show_it() -> None:
    found = difference(SharedCases(run("+" * 20), run("-" * 8 + "+" * 12)))
    assert found.value == -40.0
    assert isinstance(found.interval, Interval)
    assert found.interval.low < -40.0 < found.interval.high
    assert found.p_value is not None
    # 1 of 256 ways of 8 broken cases, and half of it, since it ties with what happened.
    assert found.p_value == pytest.approx(1 / 512, abs=0.003)
    assert found.units == 20


def test_identical_runs_do_not_differ() -> None:
    found = difference(SharedCases(run("+-" * 10), run("+-" * 10)))
    assert (found.value, found.p_value) == (0.0, 0.5)


@pytest.mark.parametrize(("first", "second"), [("+", "!"), ("", "+")])
def test_there_is_none_without_two_scores(first: str, second: str) -> None:
    assert difference(SharedCases(run(first), run(second))) == Difference()
