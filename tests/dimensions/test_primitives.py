"""Every primitive by table: its formula, and what empty, missing and odd answers score."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.dimensions import call_efficiency, speed, token_efficiency
from tallymark.dimensions.primitives import (
    coverage,
    exact_match,
    exact_match_ratio,
    fuzzy_string,
    levenshtein,
    numeric_tolerance,
    precision,
    recall,
    set_overlap,
    time_decay,
)
from tallymark.errors import InvalidInput

DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]
NAN = float("nan")


@pytest.mark.parametrize(
    ("answer", "truth", "score"),
    [
        ("Paris", "Paris", 1000),
        ("paris", "Paris", 0),
        ("caf\u0065\u0301", "caf\u00e9", 1000),
        ("", "", 1000),
        (None, "Paris", 0),
        (1, 1.0, 1000),
        (True, 1, 0),
        ("1", 1, 0),
        (NAN, NAN, 0),
        ([1, {"a": "é"}], [1, {"a": "é"}], 1000),
        ([1, 2], [2, 1], 0),
        ([True], [1], 0),
        ({"a": 1, "b": None}, {"b": None, "a": 1}, 1000),
        ({1, 2}, {2, 1}, 1000),
        (DEEP, "Paris", 0),
    ],
)
def test_exact_match(answer: Any, truth: Any, score: float) -> None:
    assert exact_match(answer, truth) == score


@pytest.mark.parametrize(
    ("answer", "truth", "score"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 5], 750),
        ([1, 2], [1, 2, 3, 4], 500),
        ([1, 2, 3, 4], [1, 2], 500),
        (["a", "a"], ["a", "b"], 500),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, 500),
        ({"a": 1, "x": 2}, {"a": 1}, 500),
        ([], [1], 0),
        ([], [], 1000),
        (None, [], 0),
        ("ab", ["a", "b"], 0),
        ({}, [], 0),
    ],
)
def test_exact_match_ratio(answer: Any, truth: Any, score: float) -> None:
    assert exact_match_ratio(answer, truth) == score


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (10, 1000),
        (12, 1000),
        (8, 1000),
        (14, 750),
        (16, 500),
        (4, 500),
        (20, 0),
        (1e300, 0),
        (None, 0),
        ("10", 0),
        (True, 0),
        (NAN, 0),
        (float("inf"), 0),
    ],
)
def test_numeric_tolerance_2_around_10_falls_to_0_at_five_times_it(
    answer: Any, score: float
) -> None:
    assert numeric_tolerance(answer, 10, 2) == score


@pytest.mark.parametrize(("answer", "score"), [(0.3, 1000), (0.1 + 0.2, 0)])
def test_a_tolerance_of_0_takes_the_written_number_only(answer: float, score: float) -> None:
    assert numeric_tolerance(answer, 0.3, 0) == score


@pytest.mark.parametrize(
    ("answer", "truth", "score"),
    [
        ("kitten", "sitting", 4000 / 7),
        ("  THE   cat ", "the cat", 1000),
        ("Straße", "STRASSE", 1000),
        ("cafe\u0301", "café", 1000),
        ("abcd", "wxyz", 0),
        ("日本", "日本語", 2000 / 3),
        ("", "abc", 0),
        ("", "", 1000),
        (None, "abc", 0),
        (7, "7", 0),
    ],
)
def test_fuzzy_string(answer: Any, truth: str, score: float) -> None:
    assert fuzzy_string(answer, truth) == score


@pytest.mark.parametrize(
    ("answer", "truth", "overlap", "covered", "precise", "recalled"),
    [
        (["a", "b"], ["b", "c"], 1000 / 3, 500, 500, 500),
        (["a", "b"], ["a", "b"], 1000, 1000, 1000, 1000),
        (["a", "a"], ["a"], 1000, 1000, 1000, 1000),
        (["a"], ["a", "a", "b"], 500, 1000 / 3, 1000, 500),
        (["a", "a", "b"], ["a", "a", "b", "c"], 2000 / 3, 750, 1000, 2000 / 3),
        (["cafe\u0301"], ["café"], 1000, 1000, 1000, 1000),
        ([{"line": 3}, [1]], [[1], {"line": 3}], 1000, 1000, 1000, 1000),
        ([True], [1], 0, 0, 0, 0),
        ([None], ["a"], 0, 0, 0, 0),
        ([DEEP], ["a"], 0, 0, 0, 0),
        ([], ["a"], 0, 0, 0, 0),
        ([], [], 1000, 1000, 1000, 1000),
        (["a"], [], 0, 1000, 0, 1000),
        ({"a"}, ["a"], 1000, 1000, 1000, 1000),
        (None, [], 0, 0, 0, 0),
        ("a", ["a"], 0, 0, 0, 0),
        ({"a": 1}, ["a"], 0, 0, 0, 0),
    ],
)
def test_sets_of_findings(
    answer: Any, truth: Any, overlap: float, covered: float, precise: float, recalled: float
) -> None:
    assert set_overlap(answer, truth) == overlap
    assert coverage(answer, truth) == covered
    assert precision(answer, truth) == precise
    assert recall(answer, truth) == recalled


@pytest.mark.parametrize(
    ("used", "full_until", "score"),
    [
        (0, 0, 1000),
        (54, 0, 100),
        (10, 20, 1000),
        (20, 20, 1000),
        (40, 20, 500),
        (60, 20, 0),
        (99, 0, 0),
    ],
)
def test_time_decay_over_60_seconds(used: float, full_until: float, score: float) -> None:
    assert time_decay(used, 60, full_until) == score


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: exact_match("a", None), "exact_match: the truth must be a value, not None"),
        (lambda: exact_match_ratio([], "ab"), "the truth must be a list or a mapping, not 'ab'"),
        (lambda: numeric_tolerance(1, NAN, 1), "numeric_tolerance: the truth must be a finite"),
        (lambda: numeric_tolerance(1, 1, -1), "the tolerance must be 0 or more, not -1"),
        (lambda: time_decay(1, 60, 60), "full_until must be 0 or more and below the limit"),
        (lambda: time_decay(1, 0), "full_until must be 0 or more and below the limit"),
        (lambda: time_decay(NAN, 60), "time_decay: the time used must be a finite number"),
    ],
)
def test_a_broken_truth_or_setting_is_refused(call: Callable[[], float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()


@pytest.mark.parametrize("primitive", [set_overlap, coverage, precision, recall, fuzzy_string])
def test_a_missing_truth_is_refused(primitive: Callable[[Any, Any], float]) -> None:
    with pytest.raises(InvalidInput, match=f"{primitive.__name__}: the truth must be .* not None"):
        primitive([], None)


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_fuzzy_string_agrees_with_the_textbook_distance(one: str, other: str) -> None:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        swap = distance(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        return min(swap, distance(i - 1, j) + 1, distance(i, j - 1) + 1)

    longer = max(len(one), len(other))
    edits = distance(len(one), len(other))
    expected = 1000 * (1 - edits / longer) if longer else 1000
    assert fuzzy_string(one, other) == pytest.approx(expected)


def test_numbers_chosen_to_have_one_hash_are_told_apart_all_the_same() -> None:
    multiples = [number * (2**61 - 1) for number in range(1, 20_000)]
    assert len({hash(number) for number in multiples}) == 1
    # Compared pairwise this would take minutes.
    assert set_overlap(multiples, multiples[1:]) < 1000
    assert exact_match(float(2**70), 2**70) == 1000
    assert exact_match(2**70 + 1, 2**70) == 0


def test_90_percent_of_the_limit_scores_100_on_speed() -> None:
    assert speed(54, 60) == 100
    assert speed(0.9, 1) == 100


@pytest.mark.parametrize(
    ("used", "limit", "score"),
    [(0, 60, 1000), (15, 60, 750), (60, 60, 0), (90, 60, 0), (-1, 60, 1000), (1, 3, 2000 / 3)],
)
def test_speed(used: float, limit: float, score: float) -> None:
    assert speed(used, limit) == score


@pytest.mark.parametrize(
    ("used", "limit", "words"),
    [
        (1, 0, "the time limit must be more than 0"),
        (1, -5, "the time limit must be more than 0"),
        (float("nan"), 60, "the time used must be a finite number, not nan"),
        (None, 60, "the time used must be a finite number, not None"),
        (1, float("inf"), "the time limit must be a finite number, not inf"),
    ],
)
def test_speed_refuses(used: Any, limit: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        speed(used, limit)


@pytest.mark.parametrize("efficiency", [token_efficiency, call_efficiency])
@pytest.mark.parametrize(
    ("used", "allowed", "verified", "score"),
    [
        (0, 10, True, 1000),
        (3, 10, True, 700),
        (10, 10, True, 0),
        (11, 10, True, 0),
        (3, 10, False, 0),
        (None, 10, False, 0),
    ],
)
def test_efficiency(
    efficiency: Callable[..., float], used: Any, allowed: float, verified: bool, score: float
) -> None:
    assert efficiency(used, allowed, verified=verified) == score


@pytest.mark.parametrize(
    ("efficiency", "used", "allowed", "words"),
    [
        (token_efficiency, 0, 0, "the number of tokens allowed must be more than 0"),
        (call_efficiency, None, 5, "the number of calls used must be a finite number, not None"),
        (call_efficiency, -1, 5, "the number of calls used must be 0 or more, not -1"),
    ],
)
def test_efficiency_refuses(
    efficiency: Callable[..., float], used: Any, allowed: float, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        efficiency(used, allowed, verified=True)


FEW = st.text("abß🎉", max_size=80)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("intention", "execution", 5),
        ("abc", "abc", 0),
        ("ab", "ba", 2),
        ("東京都", "京都", 1),
        ("a" * 1000, "b" * 1001, 1001),
    ],
)
def test_known_edit_distances(first: str, second: str, distance: int) -> None:
    assert levenshtein(first, second) == levenshtein(second, first) == distance


@given(FEW, FEW)
def test_the_edit_distance_is_that_of_the_textbook_s_table(first: str, second: str) -> None:
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, start=1):
        before, row = row, [i]
        for j, other in enumerate(second, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (one != other)))
    assert levenshtein(first, second) == row[-1]
