"""Numbers, lines and tables as people read them; text that others wrote cannot do harm."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark import text as text_module
from tallymark.text import (
    MINUS,
    Table,
    add_known,
    align_numbers,
    clean,
    clean_excerpt,
    clean_line,
    format_beside,
    format_count,
    format_difference,
    format_digits,
    format_mean,
    format_measure,
    format_moment,
    format_money,
    format_money_tick,
    format_number,
    format_p_value,
    format_percent,
    format_points,
    format_rating,
    format_score,
    format_seconds,
    format_share,
    format_tick,
    format_utc_moment,
    format_value,
    list_some,
    quote_some,
    shorten,
    shorten_line,
    shorten_middles,
    with_minus,
    wrap_lines,
    wrap_paragraphs,
)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (format_score, 4519.774, "4,519.77"),
        (format_score, 0, "0.00"),
        (format_score, -12.345, "-12.35"),
        (format_score, 0.012345, "0.01235"),
        (format_score, 3e15, "3e+15"),
        (format_score, None, "undefined"),
        (format_money, 0.0177, "$0.0177"),
        (format_money, 12.5, "$12.50"),
        (format_money, 1234.5, "$1,234.50"),
        (format_money, 0.000123, "$0.00012"),
        (format_money, -0.5, "-$0.5000"),
        (with_minus(format_money), -0.5, f"{MINUS}$0.5000"),
        (with_minus(format_tick), -20.0, f"{MINUS}20"),
        (partial(format_measure, measure="cost"), 0.002, "$0.0020"),
        (partial(format_measure, measure="duration"), 1.5, "1.50 s"),
        (partial(format_measure, measure="tokens"), 12.5, "12.5"),
        (format_money, 0, "$0"),
        (format_money, None, "unknown"),
        (format_seconds, 0.084, "84 ms"),
        (format_seconds, 0.84, "0.84 s"),
        (format_seconds, 95, "95 s"),
        (format_seconds, None, "unknown"),
        (format_percent, 80, "80.0%"),
        (format_percent, None, "unknown"),
        (format_p_value, 0.0004, "< 0.001"),
        (format_p_value, 0.0314, "0.031"),
        (format_p_value, 1, "1.00"),
        (format_p_value, None, "unknown"),
        (format_utc_moment, 1_760_000_000, "2025-10-09 08:53 UTC"),
        (format_utc_moment, None, "unknown"),
        (format_moment, 1_760_000_000, "2025-10-09 08:53"),
        (format_share, 0.8, "80.0%"),
        (format_share, None, "-"),
        (format_digits, 4519.774, "4,519.774"),
        (format_digits, None, "-"),
        (format_digits, 1 / 3, "0.3333333333"),
        (format_score, 1_234_567.891, "1,234,567.89"),
        (format_score, 5e-7, "0.0000005"),
        (format_score, -0.0, "0.00"),
        (format_score, math.nan, "undefined"),
        (format_mean, 2 / 3, "0.667"),
        (format_mean, 1, "1.000"),
        (format_mean, None, "-"),
        (format_value, 0.7, "0.7"),
        (format_value, 0.0004, "0.0004"),
        (format_number, 5e-7, "0.0000005"),
        (format_number, 2824.8587, "2,824.86"),
        (format_number, 1_000_000, "1,000,000"),
        (format_number, 1e300, "1e+300"),
        (format_number, -0.0, "0"),
        (format_number, math.inf, "undefined"),
        (format_number, None, "-"),
        (format_rating, 1512.4, "1512"),
        (format_money, 5e-7, "$0.0000005"),
        (format_money, 9.99999, "$10.00"),
        (format_money, 1e-30, "$0.000000000000001 or less"),
        (format_money, 1e30, "$1,000,000,000,000,000 or more"),
        (format_money, math.nan, "unknown"),
        (format_seconds, 0.00126, "1.3 ms"),
        (format_seconds, -0.0000004, "0 ms"),
    ],
)
def test_numbers(write: Callable[[float | None], str], value: float | None, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("value", "plain", "money"),
    [
        (0.0, "0", "$0"),
        (0.005, "0.005", "$0.005"),
        (5.0, "5", "$5"),
        (1500.0, "1,500", "$1,500"),
        (-20.0, "-20", "-$20"),
        (1e12, "1e+12", "$1,000,000,000,000"),
        (1e-7, "0.0000001", "$0.0000001"),
    ],
)
def test_ticks_are_written_short(value: float, plain: str, money: str) -> None:
    assert format_tick(value) == plain
    assert format_money_tick(value) == money


@given(st.floats())
def test_money_has_no_exponent_and_no_number_is_nan(value: float) -> None:
    assert not re.search("e[+-]|nan|inf", format_money(value))
    assert not re.search("nan|inf", format_score(value) + format_number(value) + format_mean(value))


@given(st.floats(-1e14, 1e14).filter(lambda value: value == 0 or abs(value) > 1e-14))
def test_a_number_reads_as_what_it_is(value: float) -> None:
    read = [float(write(value).replace(",", "")) for write in (format_number, format_digits)]
    assert read == [pytest.approx(value, rel=1e-5), pytest.approx(value, rel=1e-9)]


@pytest.mark.parametrize(
    ("write", "value", "bound", "text"),
    [
        (format_score, 71.234, 90, "71.23"),
        (format_score, 89.9996, 90, "89.99960"),
        (format_score, 90, 90, "90.00"),
        (format_value, 0.69996, 0.7, "0.69996"),
        (format_money, 0.010000001, 0.01, "$0.0100000010"),
        (format_seconds, 0.5004, 0.5, "0.50040 s"),
        (format_p_value, 0.0504, 0.05, "0.050400"),
    ],
)
def test_beside_a_bound_a_number_is_never_rounded_to_it(
    write: Callable[..., str], value: float, bound: float, text: str
) -> None:
    assert format_beside(write, value, bound) == text


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([0.1, 0.1, 0.1], 0.3),
        ([0.1, 0.2, None], None),
        ([1 / 3], 1 / 3),
        ([1, 2**60], 2**60 + 1),
        ([], 0),
    ],
)
def test_sums_are_exact(parts: list[float | None], total: float | None) -> None:
    assert add_known(parts) == total


def test_differences_have_a_sign() -> None:
    assert format_difference(format_money, 0.5) == "+$0.5000"
    assert format_difference(format_score, -2.0) == "-2.00"
    assert format_difference(format_score, None) == "undefined"
    assert format_difference(format_seconds, 1e-9) == "0 ms"
    assert format_difference(format_points, -0.01) == "0.0"


@pytest.mark.parametrize(("count", "text"), [(0, "0 cases"), (1, "1 case"), (1200, "1,200 cases")])
def test_things_are_counted(count: int, text: str) -> None:
    assert format_count(count, "case") == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("naïve 漢字 🎉", "naïve 漢字 🎉"),
        ("two\r\nlines\rthree", "two\nlines\nthree"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("nul\x00 bell\x07 c1\x9b", "nul bell c1"),
        ("half \ud83d pair", "half  pair"),
        ("turned \u202egnp.exe", "turned gnp.exe"),
        ("\ufffe\uffff", ""),
    ],
)
def test_what_is_harmful_goes(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_what_is_cut_says_how_much() -> None:
    assert clean_excerpt("abcdef", 4) == "abcd… (2 more characters)"
    assert clean_excerpt("abcd", 4) == "abcd"
    assert clean_excerpt("x" * 5_000_000, 10) == "xxxxxxxxxx… (4,999,990 more characters)"


@given(st.text(st.characters(codec=None)), st.integers(1, 50))
def test_one_line_is_one_line_and_fits(text: str, most: int) -> None:
    line = clean_line(text, most)
    assert len(line) <= most
    assert "\n" not in line
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"), [("", ""), ("abcde", "abcde"), ("abcdef", "ab..."), ("äöüäöüä", "äö...")]
)
def test_a_long_text_is_shortened(text: str, shown: str) -> None:
    assert shorten(text, 5) == shown


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b", "c"], "a; b; c"),
        (["a", "b", "c", "d", "e"], "a; b; c; and 2 more"),
        (["x" * 40], "x" * 40),
        (["x" * 41], "x" * 37 + "..."),
    ],
)
def test_a_long_list_is_cut(texts: list[str], line: str) -> None:
    assert list_some(texts, between="; ", most=3) == line


def test_quoted_texts_keep_their_closing_quote() -> None:
    assert quote_some(["a\n", "x" * 38, "y" * 39]) == rf"'a\n', '{'x' * 38}', '{'y' * 35}...'"


def test_a_line_of_ours_is_one_line_and_fits() -> None:
    assert shorten_line(" a\n b ") == "a b"
    assert shorten_line("abcdef", 5) == "ab..."


def test_columns_are_aligned() -> None:
    assert str(Table(("NAME", "N"), [("a", "1"), ("bcdef", "10")], right=("N",))).split("\n") == [
        "NAME    N",
        "a       1",
        "bcdef  10",
    ]
    assert align_numbers([("case", "mean"), ("a", "0.5")]) == ["case  mean", "a      0.5"]
    assert align_numbers([]) == []


SOURCE = Path(text_module.__file__).parent
# Where decimals are no words for people, and why.
OTHER_DECIMALS = {
    "service/server_logs.py": "milliseconds, in a line of a log",
    "challenges/evaluators/judge.py": "the highest rating, in a prompt",
    "charts/frame.py": "pixels and places of SVG, round steps of a scale",
    "charts/histogram.py": "the edges of bars, rounded before they are written",
    "abandonable_calls.py": "seconds, in a room that may not look into this one",
    "runs/reports/junit_report.py": "seconds as JUnit's schema has them",
    "runs/tally.py": "a sum without the dust of binary fractions",
    "scoring/scorer_descriptions.py": "an option as it is written in code",
    "web/pages/traces.py": "a tick, rounded before it is written",
    "web/rendering.py": "points of a part, as the page's tables have them",
    "web/what_if_board.py": "weights as an address has them",
}


def formatted_decimals(path: Path) -> Iterator[str]:
    """The f-strings of a file that say how many digits a number gets."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            spec = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "0"
                for part in node.format_spec.values
            )
            if re.fullmatch(r".*[\d,]?[efgEFG%]", spec) and not spec.startswith("%"):
                yield f"line {node.lineno}: {spec}"


def test_numbers_for_people_are_written_here_alone() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): list(formatted_decimals(path))
        for path in SOURCE.rglob("*.py")
        if path.name != "text.py"
    }
    assert {
        name: specs for name, specs in found.items() if specs and name not in OTHER_DECIMALS
    } == {}
    assert {name for name in OTHER_DECIMALS if not found[name]} == set()


@pytest.mark.parametrize(
    ("texts", "most", "short"),
    [
        (["abc", "defg"], 4, ["abc", "defg"]),
        (
            ["http://127.0.0.1:80/v1#good", "http://127.0.0.1:80/v1#bad"],
            12,
            ["http…v1#good", "http…/v1#bad"],
        ),
        (["one-large-model-of-2026", "one-small-model-of-2026"], 12, None),
        (["x" * 30 + "a" + "y" * 30, "x" * 30 + "b" + "y" * 30], 10, None),
    ],
)
def test_names_that_are_cut_stay_different(
    texts: list[str], most: int, short: list[str] | None
) -> None:
    found = shorten_middles(texts, most)
    assert short is None or found == short
    assert len(set(found)) == len(set(texts))
    assert max(map(len, found)) <= most


def test_nothing_is_shown_as_a_negative_zero() -> None:
    assert (format_percent(-0.01), format_seconds(-0.0), format_score(-0.0)) == (
        "0.0%",
        "0 s",
        "0.00",
    )


# Lines


@pytest.mark.parametrize(
    "command",
    [
        f"tally show r1 --case '{'a case with words in it ' * 4}'",
        "tally attempt report a-challenge-with-a-long-name --agent NAME --metric succeeded=true",
    ],
)
def test_a_command_is_never_broken(command: str) -> None:
    lines = [str(line) for line in wrap_lines(f"1 of 2 failed, and why; details: {command}")]
    assert lines == ["1 of 2 failed, and why; details:", f"  {command}"]
    assert [str(line) for line in wrap_lines(f"  {command}", indent=4)] == [f"  {command}"]


GOAL = """
One address in access.log guessed passwords: it failed to log in to at least five different
accounts, and then got into some.

1. A first point that is so long that it does not fit a line of eighty columns at all
   and goes on.
- short

```json
{"a line of code": "that is wider than eighty columns, and is as it was written by its author"}
```
| a | table |
# A heading
"""


def test_paragraphs_and_lists_are_wrapped_and_nothing_else() -> None:
    lines = [str(line) for line in wrap_paragraphs(GOAL.strip())]
    assert lines == [
        "One address in access.log guessed passwords: it failed to log in to at least",
        "five different accounts, and then got into some.",
        "",
        "1. A first point that is so long that it does not fit a line of eighty columns",
        "   at all and goes on.",
        "- short",
        "",
        "```json",
        GOAL.splitlines()[9],
        "```",
        "| a | table |",
        "# A heading",
    ]
