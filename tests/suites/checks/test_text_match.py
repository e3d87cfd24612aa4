"""`match` and `not_match`: globs over the whole answer, equality, regular expressions."""

from __future__ import annotations

import pytest
from tests.suites.checks.built_checks import checked

TABLE = [
    # stars
    ("*4*", "2 + 2 is 4.", True),
    ("*4*", "five", False),
    ("*4*", "", False),
    ("*", "", True),
    ("*", "anything", True),
    ("hello*", "Hello world", True),
    ("hello*", "Oh, hello", False),
    ("*world", "Hello WORLD", True),
    ("*world", "world peace", False),
    ("a*a", "a", False),
    ("a*a", "aa", True),
    ("a*b*c", "a-b-c", True),
    ("a*b*c", "acb", False),
    ("*a*a*", "a", False),
    ("a**b", "a--b", True),
    ("the answer is*", "The answer is 42", True),
    ("the answer is*", "Answer: 42", False),
    # newlines and space
    ("*two*", "one\ntwo\r\nthree", True),
    ("one*three", "one\ntwo\nthree", True),
    ("one?two", "one\ntwo", True),
    ("hello*", "\n  hello", True),
    # equality
    ("yes", "Yes", True),
    ("yes", "  yes\n", True),
    (" yes ", "yes", True),
    ("yes", "yes.", False),
    ("yes", "", False),
    ("", "", True),
    ("", " \n", True),
    ("", "x", False),
    # one character
    ("h?llo", "hallo", True),
    ("h?llo", "hllo", False),
    ("*h?llo*", "say HELLO!", True),
    ("?", "", False),
    ("??", "é日", True),
    ("*a?c*a?c", "abc abd adc", True),
    # unicode and case
    ("*STRASSE*", "In der Straße", True),
    ("*ÉCOLE*", "l'école", True),
    ("*é*", "e\u0301", True),
    ("*ΣΑΣ*", "σας", True),
    ("*日本*", "日本語", True),
    ("*🎉*", "done 🎉", True),
    # characters that mean something elsewhere
    (r"2 \* 3*", "2 * 3 = 6", True),
    (r"2 \* 3*", "2 + 3 = 5", False),
    (r"really\?", "Really?", True),
    (r"really\?", "really!", False),
    ("[1, 2]", "[1, 2]", True),
    ("[1, 2]", "1", False),
    ("[2020-2021]", "2", False),
    ("*3.14*", "3x14", False),
    ("*a.b*", "aXb", False),
    ("*...*", "wait...", True),
    ("*(x)*", "f(x)", True),
    ("$5", "$5", True),
    ("a|b", "a|b", True),
    ("a|b", "a", False),
    ("x^{2}", "x^{2}", True),
    # regular expressions
    (".*ABC-[0-9]+.*", "your code: abc-123", True),
    (".*ABC-[0-9]+.*", "your code: abc-", False),
    ("^x", "xyz", True),
    ("^x", "wxyz", False),
    ("x$", "wx", True),
    ("x$", "xy", False),
    (r"\d+ items", "there are 12 items", True),
    (r"\d+ items", "there are many items", False),
    ("(yes|no)", "Well, YES!", True),
    ("(yes|no)", "maybe", False),
    ("a.*z", "a\n\nz", True),
    ("ABC-[0-9]", "abc-7", True),
    ("(?:ab)+", "xababx", True),
    ("^$", "", True),
]


@pytest.mark.parametrize(("pattern", "output", "matches"), TABLE)
def test_a_pattern_and_an_answer(pattern: str, output: str, matches: bool) -> None:
    result = checked("match", pattern, output)
    assert (result.passed, result.error) == (matches, None)


@pytest.mark.parametrize(("pattern", "output", "matches"), TABLE)
def test_not_match_is_the_opposite(pattern: str, output: str, matches: bool) -> None:
    assert checked("not_match", pattern, output).passed is not matches


def test_the_reason_names_the_pattern() -> None:
    assert checked("match", "*4*", "4").reason == "matches '*4*'"
    assert checked("match", "*4*", "5").reason == "does not match '*4*'"
    assert checked("match", "x" * 200, "").reason == f"does not match '{'x' * 77}...'"


BIG = "a" * 5_000_000


@pytest.mark.parametrize(
    ("pattern", "output"),
    [
        ("*a*a*a*a*b", BIG),
        ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b*", BIG),
        ("a*a*a*a*b", BIG),
        ("*ab*ab*ab*", BIG),
        ("*a?b*", BIG),
        ("*" + "?" * 30 + "b*", "a" * 100_000),
    ],
)
def test_hostile_globs_take_linear_time(pattern: str, output: str) -> None:
    assert checked("match", pattern, output).passed is False


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [("match", "^(.*a){25}b$"), ("not_match", "^(.*a){25}b$"), ("regex", "(a|aa)+$")],
)
def test_a_hostile_regular_expression_is_stopped_and_is_an_error(kind: str, pattern: str) -> None:
    result = checked(kind, pattern, "a" * 5000 + "!")
    assert (result.passed, result.error) == (False, f"{kind}: the search took longer than 1 s")
