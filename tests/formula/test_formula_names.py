"""Which names may be declared, and how names with hyphens are read."""

from __future__ import annotations

import pytest

from tallymark.errors import FormulaError
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names, eval_name_problems
from tallymark.formula.functions import FUNCTIONS

PROTECTED = [
    *("max_latency", "min_latency", "avg_latency", "total_latency"),
    *("max_cost", "min_cost", "avg_cost", "total_cost", "success_pct"),
]


def test_the_protected_keywords_are_those_of_the_document() -> None:
    assert sorted(RUN_METRICS) == sorted(PROTECTED)


def test_our_own_metrics_yield_to_an_eval_of_their_name() -> None:
    names = Names.of_run(["p95", "judge", "error_pct"])
    for name in ("p95_latency", "judge_cost", "error_pct"):
        assert names[name] is not MORE_METRICS[name]
    assert names["p50_latency"] is MORE_METRICS["p50_latency"]
    findings = Formula.parse("1 - p95_latency", names).lint().findings
    (note,) = [each for each in findings if each.code == "taken-name"]
    assert note.message == "p95_latency is that of your eval or scorer here, not the run's"


def test_an_eval_makes_three_names() -> None:
    names = Names.of_run(["critical-eval"])
    made = set(names) - set(RUN_METRICS) - set(MORE_METRICS)
    assert made == {"critical-eval", "critical-eval_latency", "critical-eval_cost"}
    assert (names["critical-eval"].low, names["critical-eval"].high) == (0, 1)
    assert names["critical-eval_cost"].low == 0


@pytest.mark.parametrize("name", PROTECTED)
def test_protected_keywords_cannot_name_an_eval(name: str) -> None:
    with pytest.raises(FormulaError, match=f"'{name}' is reserved for the run-wide metric"):
        Names.of_run([name])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_cannot_name_an_eval(name: str) -> None:
    with pytest.raises(FormulaError, match=rf"'{name}' is reserved for the function {name}\(\)"):
        Names.of_run([name])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a b"], "'a b' has a character that formulas cannot use"),
        (["prix_\u20ac"], "has a character that formulas cannot use"),
        (["\u0430"], "has a character that formulas cannot use"),
        (["a\n"], "has a character that formulas cannot use"),
        ([""], "an eval name is empty"),
        (["12"], "'12' reads as a number"),
        (["-5"], "'-5' reads as a number"),
        (["1e-3"], "'1e-3' reads as a number"),
        (["1e"], "'1e' reads as a number"),
        (["--"], "'--' reads as a minus sign"),
        (["x" * 129], "has 129 characters; 128 are allowed"),
        (["a", "b", "a"], "two evals are named 'a': number 1 and 3"),
        (["max"], "eval 'max' would make 'max_latency', which is a run-wide metric"),
        (["total"], "eval 'total' would make 'total_cost', which is a run-wide metric"),
        (["foo", "foo_latency"], "eval 'foo' would make 'foo_latency', which is the name of an"),
    ],
)
def test_names_that_cannot_be_declared(names: list[str], message: str) -> None:
    with pytest.raises(FormulaError, match=message.replace("(", r"\(")):
        Names.of_run(names)


def test_every_name_problem_is_reported_with_its_eval() -> None:
    found = eval_name_problems(["ok", None, "total", "ok", "7"])
    assert [index for index, _ in found] == [2, 2, 3, 4]


@pytest.mark.parametrize("name", ["2nd", "1-2", "a-", "-a", "_", "A", "e1", "max-latency"])
def test_odd_names_that_are_allowed_can_be_used(name: str) -> None:
    formula = Formula.parse(f"2 * {name} + {name}_cost", Names.of_run([name]))
    assert formula.evaluate({name: 3, f"{name}_cost": 1}) == 7


ONES = {"a": 5.0, "b": 3.0, "a-b": 100.0, "c": 1.0, "b-c": 50.0, "-a": 70.0}


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("a-b", ["a", "b", "a-b"], 100),  # the longest declared name wins
        ("a - b", ["a", "b", "a-b"], 2),  # spaces always subtract
        ("a -b", ["a", "b", "a-b"], 2),
        ("a- b", ["a", "b", "a-b"], 2),
        ("a-b", ["a", "b"], 2),  # splitting is the only reading
        ("a-b-c", ["a", "b", "c", "a-b"], 99),
        ("a-b-c", ["a", "a-b", "b-c"], -45),  # `a-b` would leave `c`, which is unknown
        ("a-b-c", ["a", "b", "c"], 1),
        ("a-1", ["a"], 4),
        ("a-1e-3", ["a"], 4.999),
        ("1e-3-a", ["a"], -4.999),
        ("1e+1-a", ["a"], 5),
        ("a-(b)", ["a", "b"], 2),
        ("a-min(b,c)", ["a", "b", "c"], 4),
        ("a--b", ["a", "b"], 8),
        ("2-a", ["a"], -3),
        ("-a", ["a", "-a"], 70),
        ("- a", ["a", "-a"], -5),
        ("c*-a", ["a", "-a", "c"], 70),
        ("c-a", ["a", "-a", "c"], -4),
    ],
)
def test_how_hyphens_are_read(text: str, names: list[str], expected: float) -> None:
    formula = Formula.parse(text, names)
    assert formula.evaluate(ONES) == pytest.approx(expected)
    assert Formula.parse(str(formula), names) == formula


@pytest.mark.parametrize("text", ["-a", "- a", "-(-a)", "2 - a", "2 - -a", "-2 * - a"])
def test_printing_keeps_a_minus_apart_from_a_name_that_starts_with_one(text: str) -> None:
    formula = Formula.parse(text, ["a", "-a"])
    assert Formula.parse(str(formula), ["a", "-a"]) == formula
