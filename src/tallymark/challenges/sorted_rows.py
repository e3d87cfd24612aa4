"""Rows as numpy columns that stay in order while others come and go: what the what-if reads.

Columns have room at their end, so that a row that comes last, as most do, moves nothing. A column
that has the same value in every row is that one number. Not safe to use from several threads.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Column: TypeAlias = "NDArray[Any] | float"
Key: TypeAlias = tuple[float, ...]
_ROOM = 1.06
"""How much larger than its rows a column is made that has to grow."""
_LEAST_ROOM = 256
_FEW = 4096
"""More rows than this are sorted in with all others, instead of one by one."""


class SortedRows:
    """Columns of one length, ordered by some of them."""

    def __init__(self, columns: Mapping[str, NDArray[Any]], order: Sequence[str]) -> None:
        """`order` names the columns to sort by, the first counting most."""
        self._order = tuple(order)
        sorting = np.lexsort([columns[name] for name in reversed(self._order)])
        sorted_already = bool(np.array_equal(sorting, np.arange(len(sorting))))
        self._columns: dict[str, Column] = {}
        for name, column in columns.items():
            shared = None if name in self._order else _find_shared_value(column)
            made = column if sorted_already else column[sorting]
            self._columns[name] = made if shared is None else shared
        self._kinds = {name: column.dtype for name, column in columns.items()}
        self._count = len(sorting)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: str) -> Column:
        """A column as it is now; it may change when rows come or go."""
        column = self._columns[name]
        return column if isinstance(column, float) else column[: self._count]

    def array(self, name: str) -> NDArray[Any]:
        """A column with a value for each row."""
        column = self[name]
        if isinstance(column, float):
            return np.full(self._count, column, dtype=self._kinds[name])
        return column

    @property
    def nbytes(self) -> int:
        """How much memory it takes, mapped files included."""
        return sum(each.nbytes for each in self._columns.values() if not isinstance(each, float))

    def find(self, key: Key) -> int | None:
        """The row with these values of the columns that order; None when there is none."""
        at = self._find_place(key)
        if at < self._count and self._key_at(at) == key:
            return at
        return None

    def replace(self, gone: Sequence[int], new: Mapping[str, NDArray[Any]]) -> None:
        """Takes rows away, then puts new ones where they belong."""
        if gone:
            self._remove(np.unique(np.asarray(gone)))
        if len(new[self._order[0]]):
            self._insert(new)

    def move_to_files(self, folder: Path) -> None:
        """From now on the columns are mapped files, which the system may take out of memory."""
        for name, column in self._columns.items():
            if not isinstance(column, float) and column.nbytes:
                self._columns[name] = _map_column(column, folder)

    def _remove(self, gone: NDArray[np.intp]) -> None:
        first, left = int(gone[0]), self._count - len(gone)
        for name, column in self._columns.items():
            if not isinstance(column, float):
                kept = np.delete(column[first : self._count], gone - first)
                self._columns[name][first:left] = kept  # type: ignore[index]
        self._count = left

    def _insert(self, new: Mapping[str, NDArray[Any]]) -> None:
        sorting = np.lexsort([new[name] for name in reversed(self._order)])
        rows = {name: new[name][sorting] for name in self._columns}
        if len(sorting) > _FEW:
            self._merge(rows)
            return
        keys = zip(*(rows[name].tolist() for name in self._order), strict=True)
        places = np.array([self._find_place(key) for key in keys])
        first, count = int(places[0]), self._count + len(places)
        for name, values in rows.items():
            if (column := self._make_room(name, values, count)) is not None:
                moved = np.insert(column[first : self._count], places - first, values)
                column[first:count] = moved
        self._count = count

    def _merge(self, rows: Mapping[str, NDArray[Any]]) -> None:
        whole = {name: np.concatenate([self.array(name), rows[name]]) for name in rows}
        again = SortedRows(whole, self._order)
        self._columns, self._count = again._columns, again._count

    def _make_room(self, name: str, values: NDArray[Any], count: int) -> NDArray[Any] | None:
        """The column with so many places; None where it is still one number."""
        column = self._columns[name]
        if isinstance(column, float):
            if _are_all(values, column):
                return None
        elif len(column) >= count:
            return column
        grown = np.empty(max(int(count * _ROOM), count + _LEAST_ROOM), dtype=self._kinds[name])
        grown[: self._count] = column if isinstance(column, float) else column[: self._count]
        self._columns[name] = grown
        return grown

    def _find_place(self, key: Key) -> int:
        """Where a row with this key is, or belongs."""
        low, high = 0, self._count
        for name, value in zip(self._order, key, strict=True):
            column = self.array(name)[low:high]
            low, high = (
                low + int(np.searchsorted(column, value, side)) for side in ("left", "right")
            )
        return low

    def _key_at(self, row: int) -> Key:
        return tuple(self.array(name)[row].item() for name in self._order)


def _find_shared_value(column: NDArray[Any]) -> float | None:
    """The number that every row has; NaN where none has one. None where they differ."""
    if column.dtype != np.float64 or not len(column):
        return None
    first = float(column[0])
    return first if _are_all(column, first) else None


def _are_all(values: NDArray[Any], value: float) -> bool:
    return bool(np.isnan(values).all() if math.isnan(value) else (values == value).all())


def _map_column(column: NDArray[Any], folder: Path) -> NDArray[Any]:
    """The same in a file without a name, which is gone with the last who maps it."""
    handle, path = tempfile.mkstemp(dir=folder)
    try:
        Path(path).unlink()
        with os.fdopen(handle, "r+b") as file:
            column.tofile(file)
            file.flush()
            mapped = mmap.mmap(file.fileno(), column.nbytes)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise
    return np.frombuffer(mapped, dtype=column.dtype)
