"""What is refused, with which words, and how fast."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from tallymark.errors import FormulaError
from tallymark.formula import Formula, Names

NAMES = Names.of_run(["critical-eval", "secondary-eval", "a", "b"])


def refusal(text: str, names: Names = NAMES) -> FormulaError:
    with pytest.raises(FormulaError) as caught:
        Formula.parse(text, names)
    return caught.value


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("success_pct / total_cst", 15, "unknown name 'total_cst'", "did you mean 'total_cost'?"),
        ("Success_Pct", 1, "unknown name 'Success_Pct'", "did you mean 'success_pct'?"),
        ("critical-evl * 2", 1, "unknown name 'critical-evl'", "did you mean 'critical-eval'?"),
        ("success", 1, "unknown name 'success'", "did you mean 'success_pct'?"),
        ("2 * cost", 5, "unknown name 'cost'", "did you mean 'total_cost'?"),
        ("latency", 1, "unknown name 'latency'", "did you mean 'avg_latency'?"),
        ("critcal-eval", 1, "unknown name 'critcal-eval'", "did you mean 'critical-eval'?"),
        ("b-sucess_pct", 3, "unknown name 'sucess_pct'", "did you mean 'success_pct'?"),
        ("missing-eval", 1, "unknown name 'missing-eval'", "known: max_latency"),
        ("__import__", 1, "unknown name '__import__'", "known:"),
        ("a.__class__", 1, "unknown name 'a.__class__'", "known:"),
        ("a and b", 3, "unknown name 'and'", "write min(a, b), or multiply"),
        ("2a", 1, "unknown name '2a'", "to multiply, write 2 * a"),
        ("1_000", 1, "'1_000' is not a number", "write 1000"),
        ("1.2.3", 1, "'1.2.3' is not a number", "write for example 0.5"),
        ("sqr(4)", 1, "unknown function 'sqr'", "did you mean 'sqrt'?"),
        ("nothing(4)", 1, "unknown function 'nothing'", "known: min, max"),
        ("a(3)", 1, "'a' is a value, not a function", "to multiply, write a * (...)"),
        ("max + 1", 1, "'max' is a function", "write max(a, b, ...)"),
        ("min(1)", 1, "min takes at least 2 arguments, not 1", "write min(a, b, ...)"),
        ("sqrt()", 1, "sqrt takes 1 argument, not 0", "write sqrt(a)"),
        ("if(1, 2)", 1, "if takes 3 arguments, not 2", "write if(condition, then, otherwise)"),
        ("round(a, b)", 1, "round takes a whole number of digits", "write round(a, 2)"),
        ("clamp(a, 2, 1)", 1, "clamp's low limit is above its high limit", "clamp(..., 1, 2)"),
        ("1 +", 4, "the formula ends too early", "complete or shorten it"),
        ("* 2", 1, "is missing before '*'", "put something before the '*'"),
        ("a + + b", 5, "is missing before '+'", "remove it"),
        ("(1 + 2", 1, "this '(' is never closed", "add a ')'"),
        ("1 + 2)", 6, "this ')' closes nothing", "remove it"),
        ("a b", 3, "an operator is missing before 'b'", "put + - * or / there"),
        ("0,5", 2, "this ',' is outside a function", "write 0.5"),
        ("a < b < 1", 7, "comparisons cannot be chained", "min(a < b, b < c)"),
        ("9**9**9", 2, "'**' has no meaning", "write pow(a, b)"),
        ("a ^ 2", 3, "'^' has no meaning", "write pow(a, b)"),
        ("a // 2", 3, "'//' has no meaning", "write floor(a / b)"),
        ("a = 2", 3, "'=' has no meaning", "write == to compare"),
        ("a \u2212 2", 3, "U+2212, MINUS SIGN", "write -"),
        ("\u0430 + 1", 1, "U+0430, CYRILLIC SMALL LETTER A", "use only numbers"),
        ("\u0663", 1, "U+0663, ARABIC-INDIC DIGIT THREE", "use only numbers"),
        ("\uff11", 1, "U+FF11, FULLWIDTH DIGIT ONE", "use only numbers"),
        ("a\x00", 2, "U+0000 (a control character)", "use only numbers"),
        ("a; import os", 2, "';' has no meaning", "use only numbers"),
        ("a['b']", 2, "'[' has no meaning", "use only numbers"),
        ("a\u00a0+ b", 2, "U+00A0 (NO-BREAK SPACE)", "use only numbers"),
        ("1e999", 1, "the number 1e999 is too large", "1.8e308"),
        ("a / 0", 5, "division by zero: the divisor is always 0", "divide by something else"),
        ("a / (2 - 2)", 5, "division by zero: `2 - 2` is always 0", "divide by something else"),
        ("a + log(0)", 5, "log(0) has no value: log needs a number above 0", "remove it"),
        ("sqrt(-1) * a", 1, "sqrt needs a number that is not negative, not -1", "remove it"),
        ("1e308 * 10 + a", 1, "1e+308 * 10 is too large", "remove it"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_a_fix(
    text: str, column: int, message: str, hint: str
) -> None:
    problem = refusal(text).problems[0]
    assert message in problem.message
    assert problem.place is not None
    assert problem.place.column == column
    assert hint in (problem.hint or "")


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_formula_is_refused(text: str) -> None:
    assert "the formula is empty" in str(refusal(text))


def test_a_long_formula_is_refused() -> None:
    assert "5,001 characters; 4,096 are allowed" in str(refusal("1" + "+1" * 2500))


def test_a_deep_formula_is_refused() -> None:
    assert "nested too deeply; 64 levels" in str(refusal("(" * 65 + "1" + ")" * 65))
    assert "nested too deeply; 64 levels" in str(refusal("-" * 65 + "1"))


def test_a_formula_of_too_many_parts_is_refused() -> None:
    assert "too many parts; 1,000 are allowed" in str(refusal("1+" * 1500 + "1"))


def test_several_mistakes_are_reported_together_in_order() -> None:
    error = refusal("critcal-eval + sqrt(1, 2) * sucess_pct + min(1)")
    assert [p.place.column for p in error.problems if p.place] == [1, 16, 29, 42]


def test_only_the_first_mistakes_are_listed() -> None:
    error = refusal(" + ".join(["nonsense"] * 50))
    assert len(error.problems) == 11
    assert error.problems[-1].message == "and 40 more mistakes"


def test_what_follows_from_a_refused_character_is_not_reported() -> None:
    assert len(refusal("a % 2").problems) == 1


def test_the_caret_stands_under_the_mistake() -> None:
    assert refusal("success_pct / total_cst").render() == (
        "column 15: unknown name 'total_cst'; did you mean 'total_cost'?\n"
        "  success_pct / total_cst\n"
        "                ^^^^^^^^^"
    )


def test_a_mistake_in_a_formula_of_several_lines_names_its_line() -> None:
    error = refusal("a +\n  b +\n  total_cst")
    assert str(error).startswith("line 3, column 3: unknown name")
    assert error.render().endswith("    total_cst\n    ^^^^^^^^^")


def test_a_long_line_is_cut_around_the_caret() -> None:
    lines = refusal("1 + " * 400 + "nonsense").render().splitlines()
    assert max(map(len, lines[1:])) <= 80
    assert lines[2].index("^") == lines[1].index("nonsense")


HOSTILE = {
    "10 MB of parentheses": "(" * 10_000_000,
    "4,000 parentheses": "(" * 4_000,
    "100,000 names": "+".join(f"n{i}" for i in range(100_000)),
    "700 unknown names": " ".join(f"n{i}" for i in range(700)),
    "a power tower": "9**9**9",
    "null bytes": "\x00" * 4_000,
    "unicode digits": "\u0663" * 4_000,
    "look-alikes": "\u0430\u0435\u043e" * 1_300,
    "import": "__import__('os').system('true')",
    "minus signs": "-" * 4_000,
    "a run of hyphens": "a-" * 2_000,
    "a run of doubled hyphens": "a--" * 1_300,
    "near names": "critical-evl-" * 300,
    "dots": "." * 4_000,
    "digits": "9" * 4_000,
    "exponents": "1e-" * 1_300,
    "nested functions": "min(1," * 600,
    "nested conditions": "if(" * 60 + "a" + ",a,b)" * 60,
    "nested comparisons": "(a<" * 60 + "b" + ")" * 60,
    "products of sums": "(a+b*" * 60 + "b" + ")" * 60,
    "an escape sequence": "\x1b[31m" * 500,
    "a surrogate": "\ud800" * 100,
}


@pytest.mark.proof
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_or_answered_quickly(text: str) -> None:
    """Within 50 ms where a million additions take 50 ms: a busy machine slows both."""
    additions = min(_seconds(_add_a_million) for _ in range(3))
    for question in (_check, _explain):
        assert min(_seconds(lambda: question(text)) for _ in range(5)) < additions  # noqa: B023


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_takes_no_memory(text: str) -> None:
    tracemalloc.start()
    _check(text)
    _explain(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def _check(text: str) -> None:
    try:
        Formula.parse(text, NAMES).lint()
    except FormulaError as error:
        assert len(error.render()) < 10_000


def _explain(text: str) -> None:
    with suppress(FormulaError):
        formula = Formula.parse(text, NAMES)
        formula.evaluate({"a": 1, "b": 0})
        formula.explain({"a": 1, "b": 0}).render()


def _seconds(work: Callable[[], None]) -> float:
    """Without the tracing of a coverage run, which slows only our own code."""
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        before = time.process_time()
        work()
        return time.process_time() - before
    finally:
        sys.settrace(tracing)


def _add_a_million() -> None:
    total = 0.0
    for number in range(1_000_000):
        total += number


alphabet = st.sampled_from([*"0123456789.eE+-*/(),<>=! \n_ab", "min", "if(", "a-b", "\u0430", "\0"])


@settings(max_examples=examples(500))
@given(st.one_of(st.text(), st.lists(alphabet).map("".join)))
def test_any_text_is_a_formula_or_a_formula_error(text: str) -> None:
    try:
        formula = Formula.parse(text, NAMES)
    except FormulaError as error:
        assert error.problems
        assert error.render()
        return
    assert Formula.parse(str(formula), NAMES) == formula
    assert formula.evaluate({}) is None or not formula.names or "if" in text
    formula.lint()
