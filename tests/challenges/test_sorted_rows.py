"""Sorted rows: always what sorting all of them anew would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.sorted_rows import SortedRows

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1000), st.sampled_from([1.0, 2.0])),
    max_size=8,
    unique_by=lambda row: row[1],
)
NAMES = ("at", "key", "number")


def as_columns(rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    cells = list(zip(*rows, strict=True)) or [()] * 3
    kinds = (np.float64, np.int64, np.float64)
    return {
        name: np.array(each, dtype=kind)
        for name, each, kind in zip(NAMES, cells, kinds, strict=True)
    }


def listed(rows: SortedRows) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.array(name).tolist() for name in NAMES), strict=True))


@given(ROWS, ROWS, st.sets(st.integers(0, 7)))
def test_rows_that_come_and_go_leave_the_others_in_order(
    first: list[Any], more: list[Any], gone: set[int]
) -> None:
    known = {row[1] for row in first}
    more = [row for row in more if row[1] not in known]
    rows = SortedRows(as_columns(first), ("at", "key"))
    assert listed(rows) == sorted(first)
    places = [place for place in gone if place < len(first)]
    left = [row for place, row in enumerate(sorted(first)) if place not in places]
    rows.replace(places, as_columns(more))
    assert listed(rows) == sorted([*left, *more])


def test_many_rows_at_once_are_merged() -> None:
    first = [(float(each), each, 1.0) for each in range(0, 10_000, 2)]
    more = [(float(each), each, 2.0) for each in range(1, 10_000, 2)]
    rows = SortedRows(as_columns(first), ("at", "key"))
    rows.replace([], as_columns(more))
    assert listed(rows) == sorted(first + more)


def test_a_number_that_all_rows_share_takes_no_memory_until_one_differs() -> None:
    rows = SortedRows(as_columns([(1.0, 1, 5.0), (2.0, 2, 5.0)]), ("at", "key"))
    assert rows["number"] == 5.0
    rows.replace([], as_columns([(3.0, 3, 5.0)]))
    assert rows["number"] == 5.0
    rows.replace([], as_columns([(4.0, 4, 6.0)]))
    assert listed(rows)[2:] == [(3.0, 3, 5.0), (4.0, 4, 6.0)]


def test_what_no_row_knows_is_one_number_too() -> None:
    rows = SortedRows(as_columns([(1.0, 1, float("nan"))]), ("at", "key"))
    assert isinstance(rows["number"], float)


def test_a_row_is_found_by_its_key() -> None:
    rows = SortedRows(as_columns([(1.0, 4, 0.0), (1.0, 7, 1.0), (2.0, 1, 2.0)]), ("at", "key"))
    assert [rows.find((1.0, 7)), rows.find((1.0, 5)), rows.find((9.0, 9))] == [1, None, None]


def test_mapped_files_hold_the_same_and_can_grow(tmp_path: Path) -> None:
    first = [(float(each), each, float(each % 3)) for each in range(100)]
    rows = SortedRows(as_columns(first), ("at", "key"))
    rows.move_to_files(tmp_path)
    assert listed(rows) == first
    assert list(tmp_path.iterdir()) == []  # nobody else can open them, and a crash leaves nothing
    rows.replace([0], as_columns([(0.5, 1000, 2.0)]))
    assert listed(rows) == [(0.5, 1000, 2.0), *first[1:]]
