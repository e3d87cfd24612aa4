from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.scorers.json_comparison import JsonComparison, count_leaves, is_same

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("want", "got", "equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (None, None, True),
        (None, False, False),
        ("1", 1, False),
        ([1, [2]], [1, [2]], True),
        ([1], [1, 2], False),
        ([1], {"0": 1}, False),
        ([True], [1], False),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({}, [], False),
        ((1, 2), [1, 2], True),
    ],
)
def test_equal_values(want: Any, got: Any, equal: bool) -> None:
    assert is_same(want, got) is equal


@pytest.mark.parametrize(
    ("value", "count"),
    [(None, 1), ("abc", 1), ([], 1), ({}, 1), ([1, 2], 2), ({"a": [1, {}], "b": {"c": 3}}, 3)],
)
def test_leaves_are_counted(value: Any, count: int) -> None:
    assert count_leaves(value) == count


def test_leaves_are_counted_however_deep() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert count_leaves(deep) == 1


@given(VALUES, VALUES, st.booleans())
def test_laws_of_comparing(want: Any, got: Any, exact: bool) -> None:
    found = JsonComparison(want, got, exact_keys=exact)
    assert 0 <= found.matched <= count_leaves(want) <= found.total
    assert (found.matched == found.total) is (not found.differs_at)
    if exact:
        assert (found.matched == found.total) is is_same(want, got)
