"""Sums over a sparse matrix with far more rows than columns: A' B, and A K where A has values.

A row with few cells costs the pairs of its cells, a fuller one its place in a dense block, so that
a hundred thousand agents with ten challenges each cost little, and so do a thousand with all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.intp]"

FULL_SHARE = 0.1
"""From this share of cells on, a row is cheaper as part of a dense block (measured)."""
NUMBERS_AT_ONCE = 300_000
"""Numbers in memory at a time."""


class SparseCells:
    """The places of the matrix that have values; each sum is given the values, cell by cell.

    `rows` must be in order.
    """

    def __init__(self, rows: Places, columns: Places, shape: tuple[int, int]) -> None:
        self.rows, self.columns, self.shape = rows, columns, shape
        self._parts: list[_RowPart] = [*self._cut_thin(), *self._cut_full()]

    def over_rows(self, values: Array) -> Array:
        """The sum of every row."""
        return np.asarray(np.bincount(self.rows, values, self.shape[0]), dtype=np.float64)

    def over_columns(self, values: Array) -> Array:
        """The sum of every column."""
        return np.asarray(np.bincount(self.columns, values, self.shape[1]), dtype=np.float64)

    def gram(self, left: Array, right: Array) -> Array:
        """Left' right: columns by columns."""
        total = np.zeros((self.shape[1], self.shape[1]))
        for part in self._parts:
            part.add_gram(left, right, total)
        return total

    def across(self, values: Array, kernel: Array) -> Array:
        """The matrix times K, at the cells; times others and over rows it is the form a K b."""
        found = np.empty(len(self.rows))
        for part in self._parts:
            found[part.places] = part.across(values, kernel)
        return found

    def forms(self, left: Array, kernel: Array, right: Array) -> Array:
        """For every row of left and right, left K right'."""
        return self.over_rows(self.across(left, kernel) * right)

    def _cut_thin(self) -> Iterator[_RowPart]:
        """Rows with few cells; those with equally many go together."""
        sizes, starts = self._measure_rows()
        thin = sizes < FULL_SHARE * self.shape[1]
        for size in np.unique(sizes[thin]).tolist():
            ids = np.nonzero(thin & (sizes == size))[0]
            for some in _split_rows(ids, size * size):
                yield _ThinRows(starts[some][:, None] + np.arange(size), self)

    def _cut_full(self) -> Iterator[_RowPart]:
        sizes, starts = self._measure_rows()
        ids = np.nonzero(sizes >= FULL_SHARE * self.shape[1])[0]
        for some in _split_rows(ids, self.shape[1]):
            counts = sizes[some]
            firsts = np.repeat(starts[some] - np.cumsum(counts) + counts, counts)
            yield _FullRows(some, firsts + np.arange(len(firsts)), self)

    def _measure_rows(self) -> tuple[Places, Places]:
        sizes = np.bincount(self.rows, minlength=self.shape[0])
        return sizes, np.cumsum(sizes) - sizes


class _RowPart(Protocol):
    """Some of the rows."""

    places: Places

    def add_gram(self, left: Array, right: Array, total: Array) -> None: ...

    def across(self, values: Array, kernel: Array) -> Array: ...


class _ThinRows:
    """Rows with equally many cells: `places` has their cells, row by row."""

    def __init__(self, places: Places, cells: SparseCells) -> None:
        self.places = places
        self.columns = cells.columns[places]

    def add_gram(self, left: Array, right: Array, total: Array) -> None:
        # Every pair of cells of a row is one addition, to one place of the flattened total.
        pairs = self.columns[:, :, None] * len(total) + self.columns[:, None, :]
        products = left[self.places][:, :, None] * right[self.places][:, None, :]
        np.add.at(total.reshape(-1), pairs.ravel(), products.ravel())

    def across(self, values: Array, kernel: Array) -> Array:
        between = kernel[self.columns[:, :, None], self.columns[:, None, :]]
        return np.asarray((values[self.places][:, :, None] * between).sum(1))


class _FullRows:
    """Rows laid out with all columns when they are needed."""

    def __init__(self, ids: Places, places: Places, cells: SparseCells) -> None:
        self.places = places
        self.at = np.searchsorted(ids, cells.rows[places]), cells.columns[places]
        self.shape = (len(ids), cells.shape[1])

    def add_gram(self, left: Array, right: Array, total: Array) -> None:
        first = self._lay_out(left)
        total += first.T @ (first if right is left else self._lay_out(right))

    def across(self, values: Array, kernel: Array) -> Array:
        return np.asarray((self._lay_out(values) @ kernel)[self.at])

    def _lay_out(self, values: Array) -> Array:
        block = np.zeros(self.shape)
        block[self.at] = values[self.places]
        return block


def _split_rows(ids: Places, each: int) -> list[Places]:
    """Rows in groups small enough that the numbers made of them fit in memory."""
    many = max(1, NUMBERS_AT_ONCE // each)
    return [ids[start : start + many] for start in range(0, len(ids), many)]
