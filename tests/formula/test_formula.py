"""The formulas of the document give the numbers that arithmetic gives."""

from __future__ import annotations

import copy
import pickle

import pytest

from tallymark.errors import FormulaError
from tallymark.formula import Formula, Limits, Names

WEIGHTED = ["critical-math", "important-translation", "secondary-question"]


@pytest.mark.parametrize(
    ("text", "evals", "values", "expected"),
    [
        ("success_pct / total_cost", [], {"success_pct": 80, "total_cost": 0.0177}, 80 / 0.0177),
        (
            "(critical-eval * 2 + secondary-eval) / avg_latency",
            ["critical-eval", "secondary-eval"],
            {"critical-eval": 1, "secondary-eval": 1, "avg_latency": 1.5},
            (1 * 2 + 1) / 1.5,
        ),
        (
            "success_pct * 0.7 - (total_cost * 100)",
            [],
            {"success_pct": 80, "total_cost": 0.0177},
            80 * 0.7 - (0.0177 * 100),
        ),
        (
            "(critical-math * 3 + important-translation * 2 + secondary-question) / total_cost",
            WEIGHTED,
            dict(zip(WEIGHTED, (1, 0, 1), strict=True)) | {"total_cost": 0.02},
            (1 * 3 + 0 * 2 + 1) / 0.02,
        ),
        (
            "(accuracy-test * 0.6 + speed-test * 0.4) * success_pct / (avg_latency * total_cost)",
            ["accuracy-test", "speed-test"],
            {
                "accuracy-test": 1,
                "speed-test": 0,
                "success_pct": 50,
                "avg_latency": 2,
                "total_cost": 0.01,
            },
            (1 * 0.6 + 0 * 0.4) * 50 / (2 * 0.01),
        ),
        ("success_pct", [], {"success_pct": 100}, 100),
    ],
)
def test_formulas_of_the_document(
    text: str, evals: list[str], values: dict[str, float], expected: float
) -> None:
    formula = Formula.parse(text, Names.of_run(evals))
    assert formula.evaluate(values) == expected
    assert formula.evaluate_many({k: [v] for k, v in values.items()}).values[0] == expected
    assert formula.explain(values).value == expected


def test_the_sample_display_of_the_document_is_4519_77_not_45_23() -> None:
    score = Formula.parse("success_pct / total_cost").evaluate(
        {"success_pct": 80.0, "total_cost": 0.0177}
    )
    assert f"{score:.2f}" == "4519.77"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("7 / 2", 3.5),
        ("2 - -3", 5),
        ("--2", 2),
        ("-2 * -3", 6),
        (".5 + 5. + 1e-3 + 1E+2", 105.501),
        ("min(3, 1, 2) + max(3, 1, 2)", 4),
        ("abs(-2) + sqrt(9)", 5),
        ("log(1) + log2(8) + log10(1000) + exp(0)", 7),
        ("pow(2, 10) + pow(4, 0.5) + pow(-2, 3)", 1018),
        ("clamp(5, 0, 3) + clamp(-5, 0, 3) + clamp(2, 0, 3)", 5),
        ("round(2.5)", 3),
        ("round(-2.5)", -3),
        ("round(0.49999999999999994)", 0),
        ("round(2.675, 1) + round(1234.5678, 2)", 1237.27),
        ("floor(-1.5) + ceil(-1.5)", -3),
        ("if(1, 2, 3) + if(0, 2, 3)", 5),
        ("if(1, 2, 1 + 1)", 2),
        ("(1 < 2) + (2 <= 2) + (1 > 2) + (2 >= 2) + (1 == 1) + (1 != 1)", 4),
        ("1\n+\t2", 3),
    ],
)
def test_arithmetic(text: str, expected: float) -> None:
    assert Formula.parse(text).evaluate({}) == pytest.approx(expected, abs=1e-12)


def test_without_names_the_run_wide_metrics_are_known() -> None:
    assert Formula.parse("min_cost + max_latency").names == ("min_cost", "max_latency")


def test_names_lists_each_name_once_in_order() -> None:
    assert Formula.parse("y + x * y", ["x", "y", "z"]).names == ("y", "x")


def test_names_given_as_one_string_are_refused() -> None:
    with pytest.raises(FormulaError, match="not one string"):
        Formula.parse("abc", "abc")


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(FormulaError, match="a formula is text, not int"):
        Formula.parse(5)  # type: ignore[arg-type]


def test_limits_are_given_as_a_value() -> None:
    small = Limits(characters=10, levels=2, nodes=3)
    with pytest.raises(FormulaError, match="12 characters; 10 are allowed"):
        Formula.parse("1 + 1 + 1 + ", limits=small)
    with pytest.raises(FormulaError, match="too deeply; 2 levels"):
        Formula.parse("((1))", limits=small)
    with pytest.raises(FormulaError, match="too many parts; 3 are allowed"):
        Formula.parse("1+1+1", limits=small)


@pytest.mark.parametrize("text", ["success_pct / total_cost", "if(total_cost > 0, 1, -1)"])
def test_formulas_can_be_copied_pickled_compared_and_printed(text: str) -> None:
    formula = Formula.parse(text)
    formula.evaluate({"total_cost": 1.0, "success_pct": 1.0})
    for other in (pickle.loads(pickle.dumps(formula)), copy.deepcopy(formula)):
        assert other == formula
        assert hash(other) == hash(formula)
        assert other.evaluate({"total_cost": 2, "success_pct": 1}) is not None
    assert str(formula) == text
    assert repr(formula) == f"Formula({text!r})"
    assert formula != Formula.parse("success_pct")


def test_a_sum_over_many_evals_is_one_level_deep() -> None:
    evals = [f"e{i}" for i in range(490)]
    formula = Formula.parse(" + ".join(evals), Names.of_run(evals))
    assert formula.evaluate(dict.fromkeys(evals, 1.0)) == 490


@pytest.mark.parametrize(
    "opening",
    ["(", "-", "abs(1+2*", "min(1,2*", "if(1,2+3*", "(1<2+3*", "if(", "pow(2,"],
)
def test_the_deepest_formula_allowed_evaluates_every_way(opening: str) -> None:
    closing = {"if(": ",1,1)", "if(1,2+3*": ",0)", "-": ""}.get(opening, ")")
    text = opening * 63 + "success_pct" + closing * 63
    formula = Formula.parse(text)
    one = formula.evaluate({"success_pct": 1.0})
    assert one == formula.explain({"success_pct": 1.0}).value
    many = formula.evaluate_many({"success_pct": [1.0]})
    assert many.undefined[0] == (one is None)
    assert Formula.parse(str(formula)) == formula
    assert formula.lint().findings
