"""Sparse sums against the same sums over the whole matrix, rows laid out either way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.ratings import sparse_cells as module
from tallymark.ratings.sparse_cells import Array, SparseCells

THIN_AND_FULL = pytest.mark.parametrize("full", [0.0, 0.5, 2.0], ids=["full", "mixed", "thin"])


def sparse(seed: int, shape: tuple[int, int]) -> tuple[SparseCells, Array, Array]:
    """A random matrix without empty rows, as cells and two sets of values for them."""
    draw = np.random.default_rng(seed)
    there = draw.random(shape) < draw.random()
    there[np.arange(shape[0]), draw.integers(0, shape[1], shape[0])] = True
    rows, columns = np.nonzero(there)
    left, right = draw.normal(size=(2, len(rows)))
    return SparseCells(rows, columns, shape), left, right


def dense(cells: SparseCells, values: Array) -> Array:
    matrix = np.zeros(cells.shape)
    matrix[cells.rows, cells.columns] = values
    return matrix


@THIN_AND_FULL
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 30), columns=st.integers(1, 8))
def test_sums_are_those_of_the_whole_matrix(
    full: float, seed: int, rows: int, columns: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FULL_SHARE", full)
        patch.setattr(module, "NUMBERS_AT_ONCE", 40)
        cells, left, right = sparse(seed, (rows, columns))
    kernel = np.random.default_rng(seed).normal(size=(columns, columns))
    one, other = dense(cells, left), dense(cells, right)
    np.testing.assert_allclose(cells.gram(left, right), one.T @ other, atol=1e-12)
    np.testing.assert_allclose(cells.gram(left, left), one.T @ one, atol=1e-12)
    forms = ((one @ kernel) * other).sum(1)
    np.testing.assert_allclose(cells.forms(left, kernel, right), forms, atol=1e-12)
    np.testing.assert_allclose(cells.over_rows(left), one.sum(1), atol=1e-12)
    np.testing.assert_allclose(cells.over_columns(left), one.sum(0), atol=1e-12)
