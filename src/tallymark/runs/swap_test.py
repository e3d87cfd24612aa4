"""Whether the second of two runs is worse than the first by more than luck: a test by swapping.

If the runs were alike, the results of a case could as well have come out the other way round. So
they are swapped, in all ways or in 2,000 random ones, and the p-value is the share of swaps in
which the second run comes out at least as bad as it did (Fisher's permutation test; for success
rates it is McNemar's). From ten units on, swaps that tie with what happened count half (mid-p).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from tallymark.runs.case_columns import EXTREMES, Array, CaseColumns, evaluate_metrics
from tallymark.runs.tally import Counts, Tally

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult

_FEW_CASES = 10
"""From so many shared cases on, whole cases are swapped; with fewer, single results."""
_FEW_UNITS = 10
"""From so many swapped units on, ties count half."""
_ALL_WAYS = 11
"""Up to so many units, every way to swap them is tried."""
_WAYS = 2000
_CELLS = 1_000_000
"""Ways times units held in memory at once."""
_ROUNDING = 1e-9
"""Sums in another order differ by less than this, relative to the scores."""

Unit = tuple[str, Counts]


class SwapTest(msgspec.Struct, frozen=True):
    """What came of it."""

    p_value: float
    """How often luck alone makes the second run at least as bad as it is."""
    units: int
    """How many cases or results could be swapped and matter to the formula."""

    def can_show(self, alpha: float) -> bool:
        """Whether any outcome could have been unlikely enough."""
        return 0.5**self.units <= alpha


class _SwappedSums(NamedTuple):
    """One side after some of its units have changed places with the other's."""

    own: CaseColumns
    other: CaseColumns
    ways: Array

    def add_up(self, quantity: str, named: str | None) -> tuple[Array, Array]:
        here, there = self.own[quantity], self.other[quantity]
        rows = slice(None) if named is None else self.own.strata[named]
        ways = self.ways[:, rows]

        def swap(mine: Array, theirs: Array) -> Array:
            return np.asarray(mine[rows].sum() + ways @ (theirs[rows] - mine[rows]))

        weights = swap(here.weights, there.weights)
        totals = swap(here.totals, there.totals)
        known = swap(here.known, there.known)
        return np.where(np.abs(known - weights) < 0.5, totals, np.nan), weights

    def find_extreme(self, quantity: str, statistic: str) -> Array:
        here, there = self.own[quantity], self.other[quantity]
        if statistic == "max":
            return np.asarray(np.where(self.ways > 0, there.highest, here.highest).max(axis=1))
        if statistic == "min":
            return np.asarray(np.where(self.ways > 0, there.lowest, here.lowest).min(axis=1))
        # A percentile over the units' means: for what is swapped, as good a measure as any.
        means = [each.totals / np.maximum(each.weights, 1.0) for each in (there, here)]
        swapped = np.where(self.ways > 0, *means)
        return np.asarray(np.percentile(swapped, EXTREMES[statistic], axis=1))


def try_swaps(
    formula: Formula,
    first: Sequence[Unit],
    second: Sequence[Unit],
    *,
    higher_is_worse: bool = False,
    seed: int = 0,
) -> SwapTest | None:
    """The units of two runs, pair by pair; None where the formula is undefined for one of them."""
    relevant = CaseColumns(first, formula.names).relevant
    if not len(relevant):
        return None
    one, two = (
        CaseColumns([units[row] for row in relevant], formula.names) for units in (first, second)
    )
    sign = -1.0 if higher_is_worse else 1.0
    worse = ties = tried = 0
    observed = slack = 0.0
    for ways in _list_ways(len(relevant), seed):
        before, now = (
            formula.evaluate_many(evaluate_metrics(one.metrics, _SwappedSums(*pair, ways))).values
            for pair in ((one, two), (two, one))
        )
        change = sign * (now - before)
        if not tried:  # the first way swaps nothing
            observed, slack = change[0], _ROUNDING * max(abs(before[0]), abs(now[0]))
            if np.isnan(observed):
                return None
        # A swap that has no score counts against the claim.
        worse += int(np.sum(~(change > observed + slack)))
        ties += int(np.sum(np.abs(change - observed) <= slack))
        tried += len(ways)
    half = len(relevant) >= _FEW_UNITS
    return SwapTest((worse - ties / 2 if half else worse) / tried, len(relevant))


def _list_ways(units: int, seed: int) -> Iterator[Array]:
    """Which units change sides, in blocks of rows; the first row swaps none."""
    if units <= _ALL_WAYS:
        yield (np.arange(2**units)[:, None] >> np.arange(units) & 1).astype(np.float64)
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, _CELLS // units)
    for done in range(0, _WAYS, at_once):
        size = min(at_once, _WAYS - done), units
        ways = rng.integers(0, 2, size, dtype=np.uint8).astype(np.float64)
        if not done:
            ways[0] = 0.0
        yield ways


def pair_units(
    shared: Sequence[str],
    tallies: tuple[Tally, Tally],
    results: tuple[Sequence[CaseResult], Sequence[CaseResult]],
) -> tuple[list[Unit], list[Unit]]:
    """What is swapped: cases, or single results where there are few cases and both runs have the
    same ones. A case whose epochs are alike to the last digit is one unit: it was asked once.
    """
    before, now = (tally.cases for tally in tallies)
    cases = [(case, before[case]) for case in shared], [(case, now[case]) for case in shared]
    if len(shared) >= _FEW_CASES:
        return cases
    first, second = (_split_epochs(set(shared), each) for each in results)
    units: tuple[list[Unit], list[Unit]] = ([], [])
    for at, case in enumerate(shared):
        one, two = first[case], second[case]
        if one.keys() != two.keys() or _are_alike(one) or _are_alike(two):
            units[0].append(cases[0][at])
            units[1].append(cases[1][at])
            continue
        units[0].extend((case, one[epoch]) for epoch in sorted(one))
        units[1].extend((case, two[epoch]) for epoch in sorted(one))
    return units


def _split_epochs(shared: set[str], results: Sequence[CaseResult]) -> dict[str, dict[int, Counts]]:
    by_epoch: dict[int, list[CaseResult]] = {}
    for result in results:
        if result.case in shared:
            by_epoch.setdefault(result.epoch, []).append(result)
    found: dict[str, dict[int, Counts]] = {case: {} for case in shared}
    for epoch, each in by_epoch.items():
        for case, counts in Tally(each).cases.items():
            found[case][epoch] = counts
    return found


def _are_alike(epochs: Mapping[int, Counts]) -> bool:
    counts = list(epochs.values())
    return len(counts) > 1 and all(each == counts[0] for each in counts)
