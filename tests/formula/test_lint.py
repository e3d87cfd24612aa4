"""What lint says, and that it is never wrong."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.formula.random_formulas import NAMES, rows, trees

from tallymark.formula import Formula, Names
from tallymark.formula.lint import describe_range, sample_rows
from tallymark.formula.ranges import Direction
from tallymark.formula.tree import Call, Node, Number, Product, to_text

EVALS = Names.of_run(["a", "b", "a-b"])


def codes(text: str) -> list[str]:
    return [finding.code for finding in Formula.parse(text, EVALS).lint().warnings]


def said(text: str, code: str) -> str:
    findings = Formula.parse(text, EVALS).lint().findings
    return next(str(finding) for finding in findings if finding.code == code)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("success_pct", "the score is between 0 and 100"),
        ("success_pct / total_cost", "the score is at least 0, with no known upper bound"),
        ("success_pct * 0.7 - total_cost", "the score is at most 70, with no known lower bound"),
        ("success_pct - 50", "the score is between -50 and 50"),
        ("clamp(success_pct - total_cost, 0, 10)", "the score is between 0 and 10"),
        ("if(a, success_pct, 0) + 1", "the score is between 1 and 101"),
        ("total_cost - total_latency", "the score has no known bounds"),
        ("clamp(success_pct, 50, total_cost)", "the score is between 0 and 100"),
        ("round(success_pct / 3, 1)", "the score is between 0 and 33.3"),
        ("success_pct / (1 + total_cost)", "the score is between 0 and 100"),
        ("1 / max(total_cost, 0.5)", "the score is between 0 and 2"),
        ("abs(a - b) + floor(a) + ceil(b)", "the score is between 0 and 3"),
        ("(a < b) + (a != b)", "the score is between 0 and 2"),
        ("max_latency - avg_latency", "the score is at least 0, with no known upper bound"),
        ("min_cost - total_cost", "the score is at most 0, with no known lower bound"),
        ("avg_cost / max_cost", "the score is between 0 and 1"),
        ("-success_pct", "the score is between -100 and 0"),
        ("sqrt(success_pct) + log10(success_pct + 1)", "the score is between 0 and 12.0043"),
    ],
)
def test_lint_names_the_range(text: str, expected: str) -> None:
    assert said(text, "range") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("success_pct / total_cost", "can divide by zero: when total_cost is 0"),
        ("1 / (avg_cost * avg_latency)", "`avg_cost * avg_latency` is 0 when avg_cost = 0"),
        ("1 / (total_cost - 0.123)", "may divide by zero: `total_cost - 0.123` could be 0"),
        (
            "if(total_cost < 1, 0, 1 / (total_cost - 1))",
            "`total_cost - 1` is 0 when total_cost = 1",
        ),
        ("1 / (0 * total_cost)", "always divide by zero: `0 * total_cost` is always 0"),
    ],
)
def test_a_division_by_zero_is_foreseen(text: str, expected: str) -> None:
    assert expected in said(text, "divide-by-zero")


@pytest.mark.parametrize(
    "text",
    [
        "success_pct / (total_cost + 1)",
        "success_pct / max(total_cost, 0.01)",
        "if(total_cost > 0, success_pct / total_cost, 0)",
        "if(total_cost, success_pct / total_cost, 0)",
        "if(total_cost == 0, 0, success_pct / total_cost)",
        "if(0 < avg_cost * avg_latency, 1 / (avg_cost * avg_latency), 0)",
        "if(min(total_cost > 0, avg_latency > 0), 1 / total_cost + 1 / avg_latency, 0)",
        "if((total_cost > 0) * (avg_latency > 0), 1 / (total_cost + avg_latency), 0)",
        "if(max(total_cost <= 0, avg_cost <= 0), 0, 1 / total_cost + 1 / avg_cost)",
        "if(total_cost < 1, 0, 1 / total_cost)",
        "exp(total_cost) / (2 + a)",
    ],
)
def test_a_division_that_is_guarded_is_left_alone(text: str) -> None:
    report = Formula.parse(text, EVALS).lint()
    assert not report.may_divide_by_zero
    assert "divide-by-zero" not in [finding.code for finding in report.findings]


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("success_pct - 50", "negative", "the score can be negative: -50 when success_pct = 0"),
        ("100 + total_cost", "rises-with-cost", "the score rises with total_cost"),
        ("100 + avg_latency", "rises-with-latency", "the score rises with avg_latency"),
        ("total_cost * (total_cost - 2)", "rises-with-cost", "the score can rise with total_cost"),
        ("10 - a", "falls-with-eval", "the score falls when a passes"),
        ("10 - a_cost", "range", "the score is at most 10"),
        ("200 - success_pct", "falls-with-success", "the score falls as success_pct rises"),
        ("min(success_pct, 200)", "idle-term", "`200` can never matter: min always picks another"),
        ("success_pct + 0 * total_cost", "idle-term", "total_cost can never matter: it is multi"),
        ("if(success_pct >= 0, 1, 2) * a", "idle-term", "can never matter"),
        ("clamp(success_pct, -1, 101)", "idle-term", "the value never reaches it"),
        ("3 + 4", "constant", "the score is always 7"),
        ("a * 0", "constant", "the score is always 0"),
        ("log(0.5)", "constant", "the score is always -0.693147"),
        ("a * (min_cost > max_cost)", "idle-term", "it is always false"),
        ("success_pct / total_cost", "divide-by-zero", "guard it with max(total_cost, 0.0001)"),
        ("1 / (a - b)", "divide-by-zero", "guard it with if(a - b != 0, ..., 0)"),
        ("a-b", "hyphen", "'a-b' is read as the one name, not as a minus b; write a - b, with"),
        ("log(total_cost)", "logarithm", "can be undefined: when total_cost is 0 or less"),
        ("sqrt(a - b)", "negative-root", "can be undefined: `a - b` is negative when"),
        ("pow(a - b, 0.5)", "power", "can be undefined: `a - b` is 0 or negative when"),
        ("sqrt(-1 - a)", "undefined", "the score never has a value"),
    ],
)
def test_lint_warns_of_common_mistakes(text: str, code: str, expected: str) -> None:
    assert expected in said(text, code)


@pytest.mark.parametrize(
    "text",
    [
        "success_pct",
        "success_pct / (1 + total_cost + avg_latency)",
        "a * 3 + b * 2",
        "(a == 1) * 10 + if(success_pct == 100, 5, 0)",
        "(b != 0) + if(1 == a, 2, 1)",
    ],
)
def test_a_sound_formula_draws_no_warning(text: str) -> None:
    assert codes(text) == []


def test_no_sentence_ends_in_when() -> None:
    for text in ("log(0.5)", "1 - 2", "success_pct - log(3) * 100", "exp(1) - 3 + 0 * a"):
        report = Formula.parse(text, EVALS).lint()
        assert not [each for each in report.findings if str(each).rstrip().endswith("when")]


def test_of_400_evals_few_rows_are_tried() -> None:
    names = [f"eval{number}" for number in range(400)]
    assert len(list(sample_rows(Names.of_run(names), names))) == 15
    assert len(list(sample_rows(Names.of_run(names), names[:2]))) == 200


def test_lint_is_data_that_json_can_carry() -> None:
    report = Formula.parse("success_pct / total_cost").lint().to_dict()
    assert report["range"] == {"low": 0.0, "high": None}
    assert report["directions"] == {"success_pct": "up", "total_cost": "down"}
    assert report["findings"][0]["column"] == 15


def lintable(tree: Node) -> Formula:
    return Formula(to_text(tree), tree, NAMES)


@settings(max_examples=examples(800))
@given(trees(), rows)
def test_no_row_lies_outside_the_range_of_lint(tree: Node, row: dict[str, float]) -> None:
    formula = lintable(tree)
    report, value = formula.lint(), formula.evaluate(row)
    assume(value is not None)
    assert value is not None
    assert report.range is not None, describe_range
    assert report.range.low <= value <= report.range.high


@settings(max_examples=examples(800))
@given(trees(), rows)
@example(Call("abs", (Product((Number(0.0), Number(0.0)), ("/",)),)), dict.fromkeys(NAMES, 0.0))
def test_no_row_divides_by_zero_where_lint_saw_no_danger(tree: Node, row: dict[str, float]) -> None:
    formula = lintable(tree)
    if not formula.lint().may_divide_by_zero:
        assert "division by zero" not in (formula.reason(row) or "")


@settings(max_examples=examples(1200))
@given(trees(), rows, rows, st.sampled_from(sorted(NAMES)))
def test_no_name_moves_the_score_against_the_direction_of_lint(
    tree: Node, row: dict[str, float], other: dict[str, float], name: str
) -> None:
    formula = lintable(tree)
    low, high = sorted((row[name], other[name]))
    before, after = (formula.evaluate(row | {name: value}) for value in (low, high))
    assume(before is not None and after is not None)
    assert before is not None
    assert after is not None
    match formula.lint().directions.get(name):
        case None:
            assert before == after
        case Direction.UP:
            assert before <= after
        case Direction.DOWN:
            assert before >= after
        case Direction.EITHER:
            pass


@settings(max_examples=examples(300))
@given(trees())
def test_lint_and_its_words_never_fail(tree: Node) -> None:
    report = lintable(tree).lint()
    for finding in report.findings:
        assert str(finding)
    report.to_dict()
