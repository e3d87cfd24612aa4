"""Of a run with very many metrics, lists read those that somebody asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.formula.formula_names import RUN_METRICS
from tallymark.store.dialects import json_text
from tallymark.store.runs import read_metrics

MANY = {**dict.fromkeys(RUN_METRICS, 1.0), **{f"case-{n}": n / 2 for n in range(5_000)}}


def test_few_metrics_are_read_whole() -> None:
    few = {"success_pct": 50.0, "case-1": None, "two words": 1.0}
    assert read_metrics(json_text(few), "success_pct") == few


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("success_pct", set()),
        ("case-7 * 2 + max(case-4999, case-12_latency)", {"case-7", "case-4999"}),
        ("case-7-case-8", {"case-7", "case-8"}),
        ("nothing", set()),
    ],
)
def test_of_many_those_of_the_run_and_those_of_the_formula(formula: str, wanted: set[str]) -> None:
    found = read_metrics(json_text(MANY | {"total_cost": None}), formula)
    assert found.keys() == {*RUN_METRICS, *wanted}
    assert found["total_cost"] is None
    assert all(found[name] == MANY[name] for name in wanted)


@given(st.text(max_size=200))
def test_whatever_stands_in_a_formula(formula: str) -> None:
    assert read_metrics(json_text(MANY), formula).keys() >= set(RUN_METRICS)
