"""The matrix of cases: a square for each case of each run."""

from __future__ import annotations

import pytest
from tests.charts.svg_places import HOSTILE, check_harmless, find, read, texts

from tallymark.charts.matrix import CaseColumn, draw_matrix


def columns(count: int, *outcomes: str) -> list[CaseColumn]:
    return [CaseColumn(f"case {n}", f"#case-{n}", outcomes) for n in range(count)]


def test_several_runs_have_a_row_each() -> None:
    chart = draw_matrix("Cases", ["A", "B"], columns(10, "passed", "failed"))
    assert [(each["x"], each["y"]) for each in find(chart, "rect", "failed")][:2] == [
        ("0.5%", "24"),
        ("10.5%", "24"),
    ]
    assert texts(chart).count("✓") == texts(chart).count("✗") == 10
    assert {"A", "B", "case 0", "case 9"} <= set(texts(chart))
    assert chart.rows == [("A", "10", "0", "0", "0", "0"), ("B", "0", "0", "10", "0", "0")]


def test_the_cases_of_a_single_run_go_on_in_the_next_row() -> None:
    rects = find(draw_matrix("Cases", ["A"], columns(21, "passed")), "rect")
    assert (rects[19]["x"], rects[19]["y"]) == ("95.25%", "0")
    assert (rects[20]["x"], rects[20]["y"]) == ("0.25%", "24")


def test_squares_too_narrow_for_signs_differ_by_height() -> None:
    chart = draw_matrix("Cases", ["A", "B"], columns(60, "passed", "failed"))
    assert texts(chart) == ["A", "B"]
    assert {each["height"] for each in find(chart, "rect", "passed")} == {"5.5"}
    assert {each["height"] for each in find(chart, "rect", "failed")} == {"22"}


def test_a_square_leads_to_its_case_and_tells_its_outcome() -> None:
    chart = draw_matrix("Cases", ["A"], [CaseColumn("one", "#case-0", ["error"])])
    assert find(chart, "a")[0]["href"] == "#case-0"
    assert [each.text for each in read(chart).iter("title")] == ["Cases", "one: errors"]
    assert find(draw_matrix("Cases", ["A"], [CaseColumn("one", None, ["none"])]), "a") == []


@pytest.mark.parametrize(("runs", "drawn"), [(1, 240), (2, 100)])
def test_of_too_many_cases_some_are_chosen_and_all_are_counted(runs: int, drawn: int) -> None:
    chart = draw_matrix("Cases", "AB"[:runs], columns(500, *["passed"] * runs))
    assert len(find(chart, "rect")) == drawn * runs
    assert chart.notes == [f"{drawn} of 500 cases, chosen evenly."]
    assert chart.rows[0][1] == "500"


@pytest.mark.parametrize("count", [0, 1, 500])
def test_any_number_of_cases_with_any_name(count: int) -> None:
    cases = [CaseColumn(HOSTILE, '#"><script>', ["flaky", "none"])] * count
    check_harmless(draw_matrix(HOSTILE, [HOSTILE, "B"], cases))
