"""Explaining a score: the tree with values, and contributions that add up."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given, settings
from tests.effort import examples
from tests.formula.random_formulas import NAMES, rows, trees

from tallymark.formula import Formula
from tallymark.formula.tree import Node, to_text

VALUES = {"a": 1, "b": 0, "c": 4, "total_cost": 0.5, "success_pct": 80}


def contributions(text: str) -> dict[str, float | None]:
    formula = Formula.parse(text, list(VALUES))
    return {term.text: term.contribution for term in formula.explain(VALUES).terms}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("success_pct * 0.5 - total_cost * 10", {"success_pct * 0.5": 40, "-total_cost * 10": -5}),
        ("(a * 3 + b * 2) / total_cost", {"a * 3": 6, "b * 2": 0}),
        ("2 * (a + c) * 3", {"a": 6, "c": 24}),
        ("-(a - c)", {"-a": -1, "c": 4}),
        ("if(a, a + c, 0)", {"a": 1, "c": 4}),
        ("a - (c - success_pct)", {"a": 1, "-c": -4, "success_pct": 80}),
        ("success_pct / total_cost", {"success_pct / total_cost": 160}),
        ("(a + c) * (b + c)", {"(a + c) * (b + c)": 20}),
        ("1 / (a + c)", {"1 / (a + c)": 0.2}),
    ],
)
def test_each_term_contributes(text: str, expected: dict[str, float]) -> None:
    assert contributions(text) == pytest.approx(expected)


def test_shares_are_of_the_score() -> None:
    terms = Formula.parse("a * 3 + c", ["a", "c"]).explain({"a": 1, "c": 1}).terms
    assert [term.share for term in terms] == [0.75, 0.25]
    assert Formula.parse("a - c", ["a", "c"]).explain({"a": 1, "c": 1}).terms[0].share is None


def test_an_explanation_is_a_tree_with_contributions() -> None:
    formula = Formula.parse("success_pct * 0.7 - total_cost * 100")
    text = formula.explain({"success_pct": 80, "total_cost": 0.0177}).render()
    assert text == (
        "success_pct * 0.7 - total_cost * 100 = 54.23\n"
        "\n"
        "success_pct * 0.7 - total_cost * 100  = 54.23\n"
        "├─ success_pct * 0.7                  = 56\n"
        "│  ├─ success_pct                     = 80\n"
        "│  └─ 0.7\n"
        "└─ total_cost * 100                   = 1.77\n"
        "   ├─ total_cost                      = 0.0177\n"
        "   └─ 100\n"
        "\n"
        "What each term contributes:\n"
        "  success_pct * 0.7  56.00\n"
        "  -total_cost * 100  -1.77"
    )


def test_an_undefined_score_is_explained_too() -> None:
    explanation = Formula.parse("a / b", ["a", "b"]).explain({"a": 1, "b": 0})
    assert explanation.value is None
    assert "undefined: division by zero: b is 0" in explanation.render()
    assert explanation.to_dict()["score_error"] == "division by zero: b is 0"


def test_values_are_put_in_the_place_of_names() -> None:
    formula = Formula.parse("max(a - b, 2) < c", ["a", "b", "c"])
    assert formula.explain({"a": 1, "b": -3}).substituted == "max(1 - -3, 2) < c"
    assert formula.explain({"a": 220 / 3, "b": 12345.678}).shown == "max(73.3333 - 12345.68, 2) < c"


@settings(max_examples=examples(300))
@given(trees(), rows)
def test_contributions_add_up_to_the_score(tree: Node, row: dict[str, float]) -> None:
    explanation = Formula(to_text(tree), tree, NAMES).explain(row)
    json.dumps(explanation.to_dict(), allow_nan=False)
    explanation.render()
    if explanation.value is not None:
        parts = [term.contribution for term in explanation.terms if term.contribution is not None]
        if len(parts) < len(explanation.terms):
            return  # one alone is too large
        scale = max(map(abs, parts), default=0.0)
        assert math.fsum(parts) == pytest.approx(explanation.value, rel=1e-9, abs=scale * 1e-9)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("(a - b) * c", {"a": 1e300, "b": 1e300, "c": 1e10}),
        ("(a + b) * c * d", {"a": 1e-300, "b": 0, "c": 1e308, "d": 1e10}),
        ("(a + b) / c", {"a": 1e300, "b": -1e300, "c": 1e-300}),
        ("a + b", {"a": math.nan, "b": math.inf}),
        ("a + b", {"a": 1e308, "b": 1e308}),
        ("exp(a) + log(b) + 1 / c", {"a": 1e5, "b": -1, "c": 0}),
    ],
)
def test_no_part_is_nan_or_infinite(text: str, values: dict[str, float]) -> None:
    found = Formula.parse(text, names=list(values)).explain(values)
    told = found.to_dict()
    assert not re.search(r"\b(nan|inf|infinity|overflow)\b", found.render(), re.IGNORECASE)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_every_undefined_part_says_why_where_it_comes_from() -> None:
    formula = Formula.parse("exp(a) + log(b) + 1 / c", names=["a", "b", "c"])
    text = formula.explain({"a": 1e5, "b": -1, "c": 0}).render()
    assert "├─ exp(a)                = undefined: exp(a) is too large" in text
    assert "= undefined: log(b) has no value: log needs a number above 0, not -1" in text
    assert "= undefined: division by zero: c is 0" in text
    assert text.count("= undefined\n") == 1


def test_a_term_that_is_too_large_alone_says_so() -> None:
    formula = Formula.parse("(a - b) * c", names=["a", "b", "c"])
    found = formula.explain({"a": 1e300, "b": 1e300, "c": 1e10})
    assert (found.value, [term.contribution for term in found.terms]) == (0.0, [None, None])
    assert "  a   too large\n  -b  too large" in found.render()
    assert found.to_dict()["terms"][0]["error"] == "it is too large"
