"""Agreement of two who judge: kappa against published numbers and a second way of counting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.judging.spending import JudgeSpending
from tallymark.runs.agreement import find_judge_verdict, measure_agreement
from tallymark.runs.record import CaseResult, CheckResult

WORDS = st.sampled_from(["pass", "fail", "unsure"])
SPENT = JudgeSpending("m", 1, 1, 1, 0.1)


def make_pairs(table: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
    names = ("yes", "no", "perhaps")
    return [
        (names[row], names[column])
        for row, counts in enumerate(table)
        for column, count in enumerate(counts)
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        (((20, 5), (10, 15)), 0.4),  # the examples of Wikipedia's article on Cohen's kappa
        (((45, 15), (25, 15)), 0.1304),
        (((25, 35), (5, 35)), 0.2593),
        (((0, 10), (10, 0)), -1.0),
        (((10, 0), (0, 10)), 1.0),
        # Fleiss, Cohen and Everitt 1969: 200 cases, three words, kappa 0.429
        (((106, 10, 4), (22, 28, 10), (2, 12, 6)), 0.429),
    ],
)
def test_kappa_is_what_is_published(table: Sequence[Sequence[int]], kappa: float) -> None:
    found = measure_agreement(make_pairs(table))
    assert found.kappa == pytest.approx(kappa, abs=5e-4)
    assert found.cases == sum(map(sum, table))


def test_the_interval_of_many_cases_is_that_of_the_large_sample() -> None:
    """Fleiss, Cohen and Everitt give a standard error of 0.0534 for their table."""
    found = measure_agreement(make_pairs(((106, 10, 4), (22, 28, 10), (2, 12, 6))))
    assert found.interval is not None
    assert found.interval.low == pytest.approx(0.429 - 1.96 * 0.0534, abs=0.02)
    assert found.interval.high == pytest.approx(0.429 + 1.96 * 0.0534, abs=0.02)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=30))
def test_kappa_is_agreement_beyond_that_of_shuffled_answers(pairs: list[tuple[str, str]]) -> None:
    """Counted another way: by chance means every answer of one beside every answer of the other."""
    found = measure_agreement(pairs)
    firsts, seconds = zip(*pairs, strict=True)
    chance = sum(one == two for one, two in product(firsts, seconds)) / len(pairs) ** 2
    if chance == 1:
        assert found.kappa is None
        assert found.reason
        return
    observed = sum(one == two for one, two in pairs) / len(pairs)
    assert found.kappa is not None
    assert math.isclose(found.kappa, (observed - chance) / (1 - chance), abs_tol=1e-12)
    if found.interval is not None:
        assert -1 <= found.interval.low <= found.kappa <= found.interval.high <= 1
        assert found.interval.low < found.interval.high


def test_full_agreement_is_not_taken_for_certain() -> None:
    found = measure_agreement(make_pairs(((6, 0), (0, 6))))
    assert found.kappa == 1
    assert found.interval is not None
    assert found.interval.low < 0.7


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ((), "no case was judged by both"),
        (((9,),), "both said 'yes' every time"),
        (((2, 0), (0, 2)), "4 of at least 5 cases"),
    ],
)
def test_where_it_cannot_be_said_there_is_a_sentence(
    table: Sequence[Sequence[int]], words: str
) -> None:
    found = measure_agreement(make_pairs(table))
    assert found.interval is None
    assert words in (found.reason or "")


def judged(**fields: object) -> CheckResult:
    return CheckResult(**{"kind": "llm_judge", "passed": True, "judge": SPENT, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checks", "name", "said"),
    [
        ((CheckResult(kind="match", passed=False),), None, None),
        ((judged(), CheckResult(kind="match", passed=False)), None, True),
        ((judged(), judged(passed=False)), None, False),
        ((judged(error="no answer"),), None, None),
        ((CheckResult(kind="or", passed=True, parts=(judged(passed=False),)),), None, False),
        ((judged(kind="scorer", name="tone", value=0.2, threshold=0.0),), None, False),
        ((judged(kind="scorer", name="tone", value=0.9, threshold=0.0),), "tone", True),
        ((judged(kind="scorer", name="tone", value=0.9),), "style", None),
    ],
)
def test_what_judges_said_of_a_case(
    checks: tuple[CheckResult, ...], name: str | None, said: bool | None
) -> None:
    result = CaseResult(case="a", status="passed", checks=checks)
    assert find_judge_verdict(result, name) is said
