"""Simulated sessions with known means: coverage of the intervals over production traces.

A session has one trace, or as many as it happens to (3 on average), which are alike: half of what
varies lies between sessions. Rates are of errors or of scores that are 0 or 1; marks are scores
between; costs are lognormal with a long tail, and a longer one. A mean has one interval, and the
difference of two periods of the same agent, equally or unequally long, another: it should hold 0.

    python -m scripts.simulate_trace_intervals [RUNS]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tallymark.runs.statistics import (
    ClusterMoments,
    MeanEstimate,
    estimate_difference,
    estimate_moments,
)

Array: TypeAlias = "np.typing.NDArray[np.float64]"
SIZES = (10, 30, 100, 300)
RATES = (0.02, 0.1, 0.5, 0.95)
TAILS = (0.7, 1.0)
LEAST_COVERAGE = 0.92
_MEAN_TRACES = 3


@dataclass(frozen=True, slots=True)
class TraceWorld:
    """Sessions of traces, of which one thing is measured."""

    sessions: int
    single: bool
    rate: float | None = None
    tail: float | None = None

    @property
    def name(self) -> str:
        """What is measured."""
        if self.rate is not None:
            return f"rate {self.rate:g}"
        return "mark 0.8" if self.tail is None else f"cost, tail {self.tail:g}"

    @property
    def truth(self) -> float:
        """The mean of all traces that there could be."""
        if self.rate is not None:
            return self.rate
        return 0.8 if self.tail is None else 1.0

    def draw(self, rng: np.random.Generator, sessions: int) -> MeanEstimate:
        """What is said of so many sessions."""
        counts = np.ones(sessions, int)
        if not self.single:
            counts = rng.geometric(1 / _MEAN_TRACES, sessions)
        owner = np.repeat(np.arange(sessions), counts)
        values = self._draw_values(rng, owner, sessions)
        sums = np.bincount(owner, values, sessions)
        moments = ClusterMoments(
            *(sessions, int(counts.sum()), float(sums.sum()), float(sums @ sums)),
            *(float(sums @ counts), float(counts @ counts)),
            *(float(values.min()), float(values.max())),
        )
        return estimate_moments(moments, amounts=self.tail is not None)

    def _draw_values(
        self, rng: np.random.Generator, owner: np.typing.NDArray[np.int64], sessions: int
    ) -> Array:
        size = len(owner)
        if self.rate is not None:
            chance = np.full(sessions, self.rate)
            if not self.single:
                chance = rng.beta(2 * self.rate, 2 * (1 - self.rate), sessions)
            return (rng.random(size) < chance[owner]).astype(float)
        if self.tail is None:
            return np.asarray((rng.beta(8, 2, sessions)[owner] + rng.beta(8, 2, size)) / 2)
        half = self.tail / math.sqrt(2)
        logs = rng.normal(0, half, sessions)[owner] + rng.normal(0, half, size)
        return np.asarray(np.exp(logs - self.tail**2 / 2))


def list_worlds() -> Iterator[TraceWorld]:
    """All of them."""
    for sessions in SIZES:
        for single in (True, False):
            yield from (TraceWorld(sessions, single, rate=rate) for rate in RATES)
            yield TraceWorld(sessions, single)
            yield from (TraceWorld(sessions, single, tail=tail) for tail in TAILS)


def measure_coverage(world: TraceWorld, runs: int) -> tuple[float, float, float]:
    """The shares of intervals that hold the truth: means, and equal and unequal differences."""
    rng = np.random.default_rng([world.sessions, world.single, int(1000 * world.truth), 3])
    held = np.zeros(3)
    for _ in range(runs):
        one, two = (world.draw(rng, world.sessions) for _ in range(2))
        longer = world.draw(rng, 4 * world.sessions)
        held += (
            _holds(one, world.truth),
            _holds(estimate_difference(one, two), 0.0),
            _holds(estimate_difference(one, longer), 0.0),
        )
    return tuple(held / runs)


def _holds(found: MeanEstimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def tell_trace_coverage(runs: int) -> tuple[bool, str]:
    """Whether all hold, and the table that says so."""
    table = "| sessions | traces each | of | mean | difference | of 4 times as many |\n"
    table += "|---|---|---|---|---|---|\n"
    least = 1.0
    for world in list_worlds():
        found = measure_coverage(world, runs)
        least = min(least, *found)
        each = "1" if world.single else "1 and more"
        told = " | ".join(f"{100 * share:.1f}" for share in found)
        table += f"| {world.sessions} | {each} | {world.name} | {told} |\n"
    return least >= LEAST_COVERAGE, table


if __name__ == "__main__":
    holds, told = tell_trace_coverage(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    sys.stdout.write(told)
    sys.exit(0 if holds else 1)
