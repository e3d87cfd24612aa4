"""Dividing and looking at the quotients: compiled or not, the same bits and the same words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.compilers import needs_compiler

from tallymark.formula import Formula, quotients
from tallymark.formula.quotients import NOT_FINITE, ZERO

WAYS = [pytest.param("compiled", marks=needs_compiler), "by numpy"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "by numpy":
        monkeypatch.setattr(quotients, "compiled", None)
    else:
        assert find_spec("tallymark.formula._quotients"), "run `make setup` once more"
    with np.errstate(all="ignore"):
        yield


FOUND = {
    "nothing": ([1.0, -2.0, 3.0], [2.0, -2.0, 1.0], 0),
    "a zero": ([1.0, 0.0, 3.0], [2.0, 2.0, 1.0], ZERO),
    "a zero with a sign": ([1.0, 0.0, 3.0], [2.0, -2.0, 1.0], ZERO),
    "infinity below, which vanishes": ([1.0, 2.0, 3.0], [2.0, math.inf, 1.0], ZERO),
    "underflow": ([1.0, 1e-300, 3.0], [2.0, 1e300, 1.0], ZERO),
    "infinity above": ([1.0, math.inf, 3.0], [2.0, 2.0, 1.0], NOT_FINITE),
    "NaN above": ([1.0, math.nan, 3.0], [2.0, 2.0, 1.0], NOT_FINITE),
    "NaN below": ([1.0, 2.0, 3.0], [2.0, math.nan, 1.0], NOT_FINITE),
    "x / 0": ([1.0, 2.0, 3.0], [2.0, 0.0, 1.0], NOT_FINITE),
    "overflow": ([1.0, 1e300, 3.0], [2.0, 1e-300, 1.0], NOT_FINITE),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("above", "below", "expected"), FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("times", [1, 7, 1000])  # within and beyond what a processor takes at once
def test_what_the_quotients_hold(
    above: list[float], below: list[float], expected: int, times: int
) -> None:
    plain = [1.0] * (len(above) * (times - 1))
    columns = np.array(plain + above), np.array(plain + below)
    out = np.empty(len(columns[0]))
    found = quotients.divide(*columns, out)
    np.testing.assert_array_equal(out, columns[0] / columns[1])
    if expected:
        assert found & expected
    else:
        assert not found & NOT_FINITE


@pytest.mark.usefixtures("way")
def test_it_divides_numbers_and_columns_with_gaps_and_in_place() -> None:
    column, out = np.arange(1.0, 11.0), np.empty(5)
    unaligned = np.zeros(41, dtype=np.uint8)[1:].view(np.float64)
    for above, below in (
        (column[::2], column[:5]),
        (3.0, column[:5]),
        (column[5:], 2.0),
        (unaligned, column[:5]),
    ):
        quotients.divide(above, below, out)
        np.testing.assert_array_equal(out, np.divide(above, below))
    below = out.copy()
    quotients.divide(column[:5], out, out)
    np.testing.assert_array_equal(out, column[:5] / below)


numbers = st.one_of(
    st.floats(), st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-308])
)


@needs_compiler
@example([(0.0, 1e308), (0.0, 1e308)])  # a sum that overflows is no mistake of the rows
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40))
def test_both_ways_give_the_same_columns(rows: list[tuple[float, float]]) -> None:
    formula = Formula.parse("a / b", ["a", "b"])
    columns = dict(zip("ab", np.array(rows).T.copy(), strict=True))
    compiled = formula.evaluate_many(columns).values
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotients, "compiled", None)
        by_numpy = formula.evaluate_many(columns).values
    assert compiled.tobytes() == by_numpy.tobytes()
