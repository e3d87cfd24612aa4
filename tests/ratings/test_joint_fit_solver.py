"""Newton's method and sums over sparse matrices do not depend on the order of their work."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.ratings import Counts, Pair
from tallymark.ratings import sparse_cells as module
from tallymark.ratings.joint_fit_solver import FitSolution, MatchTable, solve
from tallymark.ratings.sparse_cells import Array, SparseCells

PRECISION = 0.2


def pool(agents: int, challenges: int, each: int) -> Counts:
    """Every agent tries `each` challenges, some of them often, some winning all of them."""
    draw = random.Random(agents * challenges + each)
    counts = Counts()
    for agent in range(agents):
        for challenge in draw.sample(range(challenges), each):
            wins, losses = draw.choice([(9, 0), (1, 1), (3, 5), (40, 60), (0, 2)])
            draws = draw.choice([0, 0, 7])
            counts.add_pair(Pair(f"a{agent:04}", f"c{challenge:04}", wins, draws, losses))
    return counts


def whole_matrix(counts: Counts) -> tuple[Array, Array, Array]:
    """Values, errors and robust errors by the definitions, with nothing eliminated."""
    cells = sorted(counts.cells())
    agents = sorted({agent for (agent, _), _ in cells})
    challenges = sorted({challenge for (_, challenge), _ in cells})
    size = len(agents) + len(challenges)
    design = np.zeros((len(cells), size))
    for at, ((agent, challenge), _) in enumerate(cells):
        design[at, agents.index(agent)] = 1
        design[at, len(agents) + challenges.index(challenge)] = -1
    wins, draws, losses = np.array([cell for _, cell in cells], dtype=float).T
    matches, values = wins + draws + losses, np.zeros(size)
    while True:
        p = 1 / (1 + np.exp(-design @ values))
        hessian = (design.T * (matches * p * (1 - p))) @ design + PRECISION * np.eye(size)
        slope = design.T @ (wins + draws / 2 - matches * p) - PRECISION * values
        step = np.linalg.solve(hessian, slope)
        values = values + step
        if np.abs(step).max() < 1e-12:
            break
    spread = wins * (1 - p) ** 2 + draws * (0.5 - p) ** 2 + losses * p**2
    inverse = np.linalg.inv(hessian)
    robust = inverse @ (design.T * spread) @ design @ inverse
    plain = np.diag(inverse) - 1 / (PRECISION * size)
    return values, np.sqrt(plain), np.sqrt(np.diag(robust))


def assert_same(found: FitSolution, wanted: tuple[Array, Array, Array]) -> None:
    for ours, theirs in zip((found.values, found.errors, found.robust_errors), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("agents", "challenges", "each"),
    [(120, 20, 3), (120, 20, 20), (120, 20, 7), (20, 80, 10), (40, 40, 5)],
    ids=["few tries each", "all tried all", "some", "more challenges than agents", "as many"],
)
def test_nothing_changes_by_eliminating_the_longer_side(
    agents: int, challenges: int, each: int
) -> None:
    counts = pool(agents, challenges, each)
    solution = solve(MatchTable.of(counts.columns()), precision=PRECISION, correlation=0)
    assert solution.groups.max() == 0
    assert_same(solution, whole_matrix(counts))


def test_memory_grows_with_the_pairs_that_met_and_not_with_all_pairs() -> None:
    counts = pool(4000, 1000, 2)
    columns = counts.columns()
    tracemalloc.start()
    try:
        MatchTable.of(columns)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000, "one number for each of 4000 x 1000 would be 32 MB"


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
