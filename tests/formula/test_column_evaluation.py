"""Every way to evaluate gives what `row_evaluation.py` defines, to the bit, undefined rows too."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.formula.random_formulas import NAMES, rows, trees, wild_rows

from tallymark.errors import FormulaError
from tallymark.formula import Formula
from tallymark.formula.column_evaluation import BLOCK, UFUNCS
from tallymark.formula.functions import COMPARISONS, FUNCTIONS
from tallymark.formula.row_evaluation import step
from tallymark.formula.tree import Node


def formula_of(tree: Node) -> Formula:
    return Formula(str(tree), tree, NAMES)


@settings(max_examples=examples(400))
@given(trees(), st.lists(st.one_of(rows, wild_rows), min_size=1, max_size=5))
def test_columns_equal_rows(tree: Node, table: list[dict[str, Any]]) -> None:
    numbers = [{k: v for k, v in row.items() if v != "text"} for row in table]
    formula = formula_of(tree)
    columns = {name: [row.get(name) for row in numbers] for name in NAMES}
    result = formula.evaluate_many(columns)
    assert len(result) == len(table)
    for index, row in enumerate(numbers):
        one = formula.evaluate(row)
        many = result.values[index]
        if one is None:
            assert math.isnan(many)
            assert result.undefined[index]
            known = {k: None if v != v else v for k, v in row.items()}  # noqa: PLR0124 - NaN
            assert result.reason(index) == formula.reason(known)
        else:
            assert many == one
            assert result.reason(index) is None


def call_text(name: str) -> tuple[str, list[str]]:
    """A call of a function with as many names as it takes, and the names."""
    if name in COMPARISONS:
        return f"x {name} y", ["x", "y"]
    names = ["x", "y", "z"][: FUNCTIONS[name].most]
    digits = name == "round"  # which must be a number as they stand
    return f"{name}({'x, 2' if digits else ', '.join(names)})", names[:1] if digits else names


def as_bits(values: Iterable[float | None]) -> list[str | None]:
    return [None if value is None or value != value else value.hex() for value in values]  # noqa: PLR0124 (NaN)


def assert_columns_equal_rows(formula: Formula, table: dict[str, list[Any]]) -> None:
    rows_ = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    defined = [step(formula.tree, row).value for row in rows_]
    expected = as_bits(None if value is None else value + 0.0 for value in defined)
    assert as_bits(formula.evaluate(row) for row in rows_) == expected
    assert as_bits(formula.evaluate_many(table).values.tolist()) == expected


@pytest.mark.parametrize("name", sorted(FUNCTIONS | COMPARISONS))
@settings(max_examples=examples(100))
@given(st.data())
def test_rows_and_columns_agree_to_the_bit_in_every_function(
    name: str, data: st.DataObject
) -> None:
    text, names = call_text(name)
    numbers = st.one_of(st.floats(-50, 50), st.floats(0, 1e6), st.floats(), st.none())
    row = st.tuples(*[numbers for _ in names])
    columns = zip(*data.draw(st.lists(row, min_size=1, max_size=20)), strict=True)
    table = {each: list(column) for each, column in zip(names, columns, strict=True)}
    assert_columns_equal_rows(Formula.parse(text, names), table)


LAST_BITS = [
    *["exp(x)", "log(x)", "log2(x)", "log10(x)", "pow(x, y)", "pow(x, 2)", "pow(10, 0 - y)"],
    *["floor(1e12 * exp(x))", "if(pow(10, 0 - y) < exp(y), x, 0)", "log10(x) * exp(-x) / y"],
]


@pytest.mark.parametrize("text", LAST_BITS)
@pytest.mark.parametrize("odd", [[], [0.0, -1.0, 1e9, 1e308, None]], ids=["defined", "undefined"])
def test_the_last_bit_is_the_same_in_thousands_of_rows(text: str, odd: list[float | None]) -> None:
    rng = np.random.default_rng(1)
    drawn = {"x": rng.uniform(0.001, 50, 5000), "y": rng.uniform(0.001, 9, 5000)}
    whole = [float(each) for each in range(1, 300)]
    table = {name: [*column.tolist(), *whole, *odd] for name, column in drawn.items()}
    assert_columns_equal_rows(Formula.parse(text, ["x", "y"]), table)


def test_a_power_of_ten_is_on_one_side_of_a_limit_alone_and_among_others() -> None:
    assert every_way("if(pow(10, 0 - x) < 0.00001, 0, 100)", {"x": 5.0}) == {100.0}


def test_a_single_number_beside_columns_goes_into_every_row() -> None:
    formula = Formula.parse("pow(x, y) + exp(y)", ["x", "y"])
    expected = [formula.evaluate({"x": x, "y": 0.3}) for x in (0.1, -1.0, 7.0)]
    strided = np.array([0.1, 9.0, -1.0, 9.0, 7.0, 9.0])[::2]
    for column in ([0.1, -1.0, 7.0], strided):
        found = formula.evaluate_many({"x": column, "y": 0.3}).values.tolist()
        assert as_bits(found) == as_bits(expected)
    assert as_bits(formula.evaluate_many({"x": 7.0, "y": 0.3}).values.tolist()) == as_bits(
        expected[2:]
    )


def test_every_table_has_every_function() -> None:
    from tallymark.formula.ranges import FUNCTION_FACTS

    assert set(UFUNCS) == set(FUNCTIONS) | set(COMPARISONS) | set("+-*/")
    assert set(FUNCTION_FACTS) | {"if"} == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        ("a / b", {"a": 1, "b": 0}, "division by zero: b is 0"),
        ("a / (b - b)", {"a": 1, "b": 2}, "division by zero: b - b is 0"),
        ("a + b", {"a": 1}, "b has no value"),
        ("a + b", {"a": 1, "b": None}, "b has no value"),
        ("a + b", {"a": 1, "b": math.nan}, "b is not a number"),
        ("a + b", {"a": math.inf, "b": 1}, "a is too large"),
        ("a + b", {"a": "7", "b": 1}, "a is '7', not a number"),
        ("a * b", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("1 / (a * b)", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("min(a * b, 1)", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("exp(-a * b)", {"a": 1e308, "b": 10}, "-a * b is too large"),
        ("a * b > 1", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("if(a * b, 1, 0)", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("pow(a * b, 0)", {"a": 1e308, "b": 10}, "a * b is too large"),
        ("exp(a)", {"a": 1000}, "exp(a) is too large"),
        ("log(a)", {"a": 0}, "log(a) has no value: log needs a number above 0, not 0"),
        ("sqrt(a)", {"a": -4}, "sqrt(a) has no value: sqrt needs a number that is not negative"),
        ("pow(a, b)", {"a": 0, "b": -1}, "pow(a, b) has no value: pow needs a base above 0"),
        ("pow(a, b)", {"a": -8, "b": 0.3}, "pow(a, b) has no value"),
        ("round(a, 2)", {"a": 1e308}, "round(a, 2) is too large"),
    ],
)
def test_an_undefined_value_says_why(text: str, values: dict[str, Any], reason: str) -> None:
    formula = Formula.parse(text, ["a", "b"])
    assert [formula.evaluate(values) for _ in range(2)] == [None, None]
    assert (formula.reason(values) or "").startswith(reason)
    if "7" not in values.values():
        columns = formula.evaluate_many({k: [1.0, v] for k, v in values.items()})
        assert columns.undefined[1]
        shown = reason if reason != "b is not a number" else "b has no value"
        assert (columns.reason(1) or "").startswith(shown)


@pytest.mark.parametrize(
    ("cost", "expected"), [(0, 0), (2, 40), (None, None), (math.nan, None), (0.0, 0)]
)
def test_if_looks_only_at_the_branch_it_takes(cost: float | None, expected: float | None) -> None:
    formula = Formula.parse("if(total_cost > 0, success_pct / total_cost, 0)")
    for _ in range(2):
        assert formula.evaluate({"success_pct": 80, "total_cost": cost}) == expected
    column = formula.evaluate_many({"success_pct": [80, 80], "total_cost": [cost, 2]}).values
    assert column[1] == 40
    assert math.isnan(column[0]) if expected is None else column[0] == expected


def every_way(text: str, values: dict[str, float]) -> set[float | None]:
    """A formula's value step by step, as a first row, as a later one, and as one of many."""
    formula = Formula.parse(text, list(values))
    table = {name: [7.0, value, -7.0] for name, value in values.items()}
    column = formula.evaluate_many(table).values[1]
    later = [formula.evaluate(values) for _ in range(3)]
    return {step(formula.tree, values).value, *later, float(column)}


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0, 3.0, 5.0, 9.0])
@pytest.mark.parametrize(("low", "high"), [(1.0, 5.0), (5.0, 1.0), (2.0, 2.0), (0.0, -3.0)])
def test_clamp_is_numpys_clip_also_where_its_limits_cross(
    x: float, low: float, high: float
) -> None:
    expected = float(np.clip(x, low, high))
    if low > high:  # numpy's documents: all is then the upper limit
        assert expected == high
    values = {"x": x, "low": low, "high": high}
    assert every_way("clamp(x, low, high)", values) == {expected}


@pytest.mark.parametrize("value", [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4999, -2.5001, 1e15 + 0.5])
def test_halves_go_away_from_zero_as_in_decimal(value: float) -> None:
    expected = float(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))
    assert every_way("round(x)", {"x": value}) == {expected}


@pytest.mark.parametrize(("condition", "expected"), [(1, 2), (-1, 2), (0.1, 2), (-0.0, 3), (0, 3)])
def test_a_condition_is_false_only_at_zero(condition: float, expected: float) -> None:
    assert every_way("if(x, 2, 3)", {"x": float(condition)}) == {expected}


def test_a_value_missing_in_the_other_branch_does_not_matter() -> None:
    formula = Formula.parse("if(a, b, c)", ["a", "b", "c"])
    assert formula.evaluate({"a": 1, "b": 2, "c": None}) == 2
    assert formula.evaluate({"a": 1, "b": 2}) == 2
    assert formula.evaluate({"a": 0, "b": 2}) is None


@pytest.mark.parametrize("three", [3, 3.0, True + 2, np.float64(3), np.int32(3), Fraction(3)])
def test_numbers_of_other_types_are_accepted(three: Any) -> None:
    formula = Formula.parse("x / 2", ["x"])
    assert [formula.evaluate({"x": three}) for _ in range(3)] == [1.5] * 3


def test_numpy_scalars_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = {"x": np.float64(1), "y": np.float64(0)}
        formula = Formula.parse("x / y", ["x", "y"])
        assert [formula.evaluate(values) for _ in range(3)] == [None] * 3


def test_a_negative_zero_is_zero() -> None:
    formula = Formula.parse("-x * 2", ["x"])
    for _ in range(2):
        assert str(formula.evaluate({"x": 0.0})) == "0.0"
    assert math.copysign(1, formula.evaluate_many({"x": [0.0]}).values[0]) == 1


COLUMNS: dict[str, Any] = {
    "a list": [1, None, 3],
    "a tuple": (1, None, 3),
    "floats": np.array([1, np.nan, 3]),
    "strided": np.array([1, 9, np.nan, 9, 3, 9.0])[::2],
    "single precision": np.array([1, np.nan, 3], dtype=np.float32),
    "objects": np.array([1, None, 3], dtype=object),
    "masked": np.ma.masked_array([1, 7, 3], mask=[False, True, False]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_many_kinds(column: Any) -> None:
    result = Formula.parse("x * y", ["x", "y"]).evaluate_many({"x": column, "y": 2})
    assert list(result.undefined) == [False, True, False]
    assert list(result.values[[0, 2]]) == [2, 6]
    assert result.reason(1) == "x has no value"


@pytest.mark.parametrize("rows_", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_blocks_meet_without_a_seam(rows_: int) -> None:
    x = np.arange(rows_, dtype=np.float64)
    x[rows_ // 2] = 0
    result = Formula.parse("1 / x + min(x, 5)", ["x"]).evaluate_many({"x": x})
    bad = np.flatnonzero(x == 0)
    assert list(np.flatnonzero(result.undefined)) == list(bad)
    good = x != 0
    assert np.array_equal(result.values[good], 1 / x[good] + np.minimum(x[good], 5))


def test_long_blocks_of_a_single_operation_meet_without_a_seam() -> None:
    x = np.arange(18.0 * BLOCK + 1)
    x[17 * BLOCK] = 0.0
    result = Formula.parse("x / x", ["x"]).evaluate_many({"x": x})
    assert list(np.flatnonzero(result.undefined)) == [0, 17 * BLOCK]
    assert np.all(result.values[x > 0] == 1.0)


def test_threads_share_a_formula() -> None:
    formula = Formula.parse("(x + 1) * (x + 2)", ["x"])
    columns = [np.full(2 * BLOCK, float(nth)) for nth in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: formula.evaluate_many({"x": x}).values, columns * 4))
    expected = [(x + 1) * (x + 2) for x in columns * 4]
    assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def test_inputs_are_left_as_they_were() -> None:
    x = np.array([1.0, np.inf, 0.0])
    Formula.parse("-x / x", ["x"]).evaluate_many({"x": x})
    assert x.tolist() == [1.0, math.inf, 0.0]


def test_a_constant_formula_fills_the_rows() -> None:
    assert Formula.parse("2 + 3").evaluate_many({"unused": [1, 2]}).values.tolist() == [5, 5]
    assert Formula.parse("2 + 3").evaluate_many({}).values.tolist() == [5]
    assert len(Formula.parse("success_pct").evaluate_many({"success_pct": []})) == 0


def test_a_missing_column_leaves_every_row_undefined() -> None:
    result = Formula.parse("x + y", ["x", "y"]).evaluate_many({"x": [1, 2]})
    assert result.undefined.all()
    assert result.reason(0) == "y has no value"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1, 2], "y": [1]}, "column 'y' has 1 rows and column 'x' has 2"),
        ({"x": ["a"], "y": [1]}, "column 'x' holds something that is not a number"),
        ({"x": np.ones((2, 2)), "y": 1}, "column 'x' has 2 dimensions"),
        ({"x": [1], "y": object()}, "column 'y' holds something that is not a number"),
    ],
)
def test_columns_that_cannot_be_used(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula.parse("x + y", ["x", "y"]).evaluate_many(columns)


def test_ten_million_rows_need_little_more_than_their_result() -> None:
    text = "(a * 0.6 + b * 0.4) * success_pct / (avg_latency * total_cost)"
    formula = Formula.parse(text, ["a", "b", "success_pct", "avg_latency", "total_cost"])
    rows_ = 10_000_000
    column = np.ones(rows_)
    whole = np.ones(rows_, dtype=np.int32)
    columns = dict.fromkeys(formula.names, column) | {"a": whole}
    tracemalloc.start()
    result = formula.evaluate_many(columns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - result.values.nbytes < 64_000_000
    assert result.values[-1] == 1.0


@pytest.mark.parametrize(
    "text", ["a", "-a", "a / b", "a * b", "a - b", "a / b - b * 2", "a * 2 / b"]
)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (timedelta(1), timedelta(2)),  # their quotient is a float
        ("x", 10**12),  # their product is a text that no memory holds
        (10**200, 10**200),
        (2**60 + 1, True),
        (Decimal("1.5"), Fraction(1, 2)),
        (np.float64(1), np.float64(0)),  # which numpy divides, with a warning
        (np.float32(1.5), 1e300),
        ([1], 2),
        (1 + 2j, 1.0),
        (2.0, None),
    ],
)
def test_what_python_could_reckon_with_is_a_number_or_undefined(text: str, a: Any, b: Any) -> None:
    formula, row = Formula.parse(text, ["a", "b"]), {"a": a, "b": b}
    value = formula.evaluate(row)
    assert value is None or type(value) is float
