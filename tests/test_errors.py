"""Errors say what, where and how to mend it."""

from __future__ import annotations

import pytest

from tallymark.errors import (
    FormulaError,
    InvalidInput,
    Place,
    Problem,
    TallymarkError,
    WorkFailed,
    suggest,
)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("suite.yaml", 3, 7), "suite.yaml:3:7"),
        (Place("suite.yaml", 3), "suite.yaml:3"),
        (Place("suite.yaml"), "suite.yaml"),
        (Place(line=1, column=7), "column 7"),
        (Place(line=2, column=7), "line 2, column 7"),
        (Place(line=2), "line 2"),
        (Place(), ""),
    ],
)
def test_a_place_reads_as_editors_expect(place: Place, text: str) -> None:
    assert str(place) == text


def test_a_problem_is_one_sentence() -> None:
    problem = Problem("unknown key 'nmae'", Place("s.yaml", 2, 5), "did you mean 'name'?")
    assert str(problem) == "s.yaml:2:5: unknown key 'nmae'; did you mean 'name'?"
    assert str(Problem("it is empty")) == "it is empty"
    assert problem.to_dict()["place"]["line"] == 2
    assert Problem("it is empty").to_dict() == {
        "message": "it is empty",
        "place": None,
        "hint": None,
    }


def test_an_error_carries_all_its_problems() -> None:
    error = FormulaError([Problem("one"), Problem("two")])
    assert [p.message for p in error.problems] == ["one", "two"]
    assert str(error) == error.render() == "one\ntwo"
    with pytest.raises(ValueError, match="at least one problem"):
        FormulaError([])


def test_exit_codes() -> None:
    assert InvalidInput("x").exit_code == FormulaError("x").exit_code == 2
    assert WorkFailed("x").exit_code == 3
    assert issubclass(InvalidInput, TallymarkError)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    from tallymark import errors

    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, TallymarkError):
            assert name in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("total_cst", "total_cost"),
        ("TOTAL_COST", "total_cost"),
        ("sucess", "success"),
        ("zzz", None),
        ("", None),
        ("x" * 500, None),
    ],
)
def test_the_nearest_word(wrong: str, right: str | None) -> None:
    assert suggest(wrong, ["success", "total_cost", "avg_latency"]) == right
