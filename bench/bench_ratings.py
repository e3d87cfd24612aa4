"""The joint fit with intervals: 200 agents, 50 challenges, a million attempts, from counts.

Beside it, in the same run, the same model fitted the plain way: gradient steps over the single
attempts with numpy, then one Hessian for the errors. Both must give the same numbers. There is no
gate: the promise is against arena-rank, which is not a dependency.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tallymark.ratings import Counts, Fit, Pair, fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.intp]"
AGENTS, CHALLENGES, ATTEMPTS = 200, 50, 1_000_000
SCALE = 400 / np.log(10)
PRIOR = float(SCALE / 400) ** 2
SMALL = 1e-6


def draw() -> tuple[Places, Places, Array]:
    """Who tried what, and with which result: 1, 0.5 or 0."""
    rng = np.random.default_rng(20)
    strengths, difficulties = rng.normal(0, 1, AGENTS), rng.normal(0, 1, CHALLENGES)
    agents = rng.integers(0, AGENTS, ATTEMPTS)
    challenges = rng.integers(0, CHALLENGES, ATTEMPTS)
    chances = 1 / (1 + np.exp(difficulties[challenges] - strengths[agents]))
    results = (rng.random(ATTEMPTS) < chances).astype(float)
    results[rng.random(ATTEMPTS) < 0.1] = 0.5
    return agents.astype(np.intp), challenges.astype(np.intp), results


def count(agents: Places, challenges: Places, results: Array) -> Counts:
    cells = np.zeros((AGENTS, CHALLENGES, 3), dtype=int)
    np.add.at(cells, (agents, challenges, (2 - 2 * results).astype(int)), 1)
    return Counts.of(
        Pair(f"agent-{a:03}", f"challenge-{c:02}", *cells[a, c].tolist())
        for a in range(AGENTS)
        for c in range(CHALLENGES)
    )


def plain(agents: Places, challenges: Places, results: Array) -> tuple[Array, Array]:
    """Values and errors, by gradient steps scaled to each unknown's own number of attempts."""
    size = AGENTS + CHALLENGES
    columns = challenges + AGENTS
    tries = np.bincount(agents, minlength=size) + np.bincount(columns, minlength=size)
    values = np.zeros(size)
    while True:
        chances = 1 / (1 + np.exp(values[columns] - values[agents]))
        left = results - chances
        slope = np.bincount(agents, left, size) - np.bincount(columns, left, size) - PRIOR * values
        step = slope / (tries / 2 + PRIOR)  # at least the curvature of any two that meet
        step -= step.mean()  # the optimum has mean 0, which the prior alone finds very slowly
        values = values + step
        if np.abs(step).max() < SMALL:
            break
    weights = chances * (1 - chances)
    cross = np.bincount(agents * size + columns, weights, size * size).reshape(size, size)
    hessian = np.diag(cross.sum(0) + cross.sum(1) + PRIOR) - cross - cross.T
    variances = np.diag(np.linalg.inv(hessian)) - 1 / (PRIOR * size)
    return 1000 + SCALE * values, SCALE * np.sqrt(variances)


def assert_same(fitted: Fit, values: Array, errors: Array) -> None:
    ours = [*fitted.strengths.values(), *fitted.difficulties.values()]
    assert np.allclose([estimate.value for estimate in ours], values, atol=0.01)
    assert np.allclose([estimate.error for estimate in ours], errors, atol=0.01)


def main() -> None:
    log = draw()
    counts = count(*log)
    fitted = fit(counts)  # loads numpy's parts once
    times = []
    for _ in range(7):
        start = time.perf_counter()
        fitted = fit(counts)
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    values, errors = plain(*log)
    slow = time.perf_counter() - start
    assert_same(fitted, values, errors)
    ours = sorted(times)[len(times) // 2]
    print(f"joint fit of {ATTEMPTS:,} attempts, {AGENTS} agents, {CHALLENGES} challenges")
    print(f"  tallymark, from counts   {ours * 1000:8.1f} ms (median of {len(times)})")
    print(f"  gradient over attempts   {slow * 1000:8.1f} ms, {slow / ours:.0f} times as long")
    print("  arena-rank is not installed: its promise is not checked here")


if __name__ == "__main__":
    main()
