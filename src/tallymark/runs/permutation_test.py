"""Permutation test: is the second of two runs worse than the first by more than chance?

If the runs were equal, the results of a case could be exchanged. So they are swapped, in all ways
or in 2,000 random ones, and the p-value is the share of swaps in which the second run is at least
as bad as observed (Fisher's permutation test; for success rates it is McNemar's). From ten units
on, ties count half (mid-p).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from tallymark.runs.case_columns import (
    EXTREMES,
    Array,
    CaseColumns,
    CaseTable,
    Rows,
    evaluate_metrics,
)
from tallymark.runs.tally import CaseCounts, Tally

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult

FEW_CASES = 10
"""From this number of shared cases on, whole cases are swapped; below, single results."""
_FEW_UNITS = 10
"""From this number of swapped units on, ties count half."""
_ALL_WAYS = 11
"""Up to this number of units, every way to swap them is tried."""
_WAYS = 2000
_CELLS = 1_000_000
"""Ways times units held in memory at once."""
_ROUNDING = 1e-9
"""Sums in another order differ by less than this, relative to the scores."""

Unit = tuple[str, CaseCounts]


class SwapTest(msgspec.Struct, frozen=True):
    """Result of the test."""

    p_value: float
    """Probability that chance alone makes the second run at least as bad."""
    units: int
    """Number of swappable cases or results that matter to the formula."""


class _Moves(NamedTuple):
    """Change of one number by swaps of units, added up over some of them."""

    sums: tuple[float, float]
    """On each side, before anything is swapped."""
    changes: Array | None
    """The other side's less this side's; None where all are alike, as most numbers are."""


class _Pairs:
    """The units of both runs. What is made of a column is made once, for all formulas."""

    def __init__(self, first: CaseTable, second: CaseTable) -> None:
        self.sides = first, second
        self.ways: Array = np.empty((0, 0))
        self._moves: dict[tuple[str, str | None], list[_Moves]] = {}
        self._moved: dict[tuple[str, str | None], list[Array]] = {}

    def take(self, ways: Array) -> None:
        """Goes on with other ways."""
        self.ways = ways
        self._moved.clear()

    def add_up(
        self, side: int, quantity: str, named: str | None, rows: Rows | slice
    ) -> Iterator[Array]:
        """The totals, the weights and what is known, on one side, in each way."""
        here = quantity, named
        if here not in self._moves:
            one, two = (each[quantity][:3] for each in self.sides)
            pairs = zip(one, two, strict=True)
            self._moves[here] = [_compare(mine[rows], theirs[rows]) for mine, theirs in pairs]
        if here not in self._moved:
            ways = self.ways[:, rows]
            self._moved[here] = [
                # Not `@`, whose threads cost more than they save.
                np.zeros(len(ways)) if each is None else np.einsum("ij,j->i", ways, each)
                for _, each in self._moves[here]
            ]
        for (sums, _), moved in zip(self._moves[here], self._moved[here], strict=True):
            yield sums[side] - moved if side else sums[side] + moved


def _compare(mine: Array, theirs: Array) -> _Moves:
    changes = theirs - mine
    return _Moves((mine.sum(), theirs.sum()), changes if changes.any() else None)


class _SwappedSums(NamedTuple):
    """One side after some of its units have changed places with the other's."""

    pairs: _Pairs
    columns: CaseColumns
    side: int

    def add_up(self, quantity: str, named: str | None) -> tuple[Array, Array]:
        rows = slice(None) if named is None else self.columns.strata[named]
        totals, weights, known = self.pairs.add_up(self.side, quantity, named, rows)
        return np.where(np.abs(known - weights) < 0.5, totals, np.nan), weights

    def find_extreme(self, quantity: str, statistic: str) -> Array:
        ways, sides = self.pairs.ways, self.pairs.sides
        here, there = sides[self.side][quantity], sides[1 - self.side][quantity]
        if statistic == "max":
            return np.asarray(np.where(ways > 0, there.highest, here.highest).max(axis=1))
        if statistic == "min":
            return np.asarray(np.where(ways > 0, there.lowest, here.lowest).min(axis=1))
        # A percentile over the units' means: for what is swapped, as good a measure as any.
        means = [each.totals / np.maximum(each.weights, 1.0) for each in (there, here)]
        swapped = np.where(ways > 0, *means)
        return np.asarray(np.percentile(swapped, EXTREMES[statistic], axis=1))


class _Trial:
    """One formula while ways are tried."""

    def __init__(self, pairs: _Pairs, formula: Formula, sign: float) -> None:
        self._formula, self._sign = formula, sign
        columns = CaseColumns(pairs.sides[0], formula.names)
        self._metrics = columns.metrics
        self._sums = [_SwappedSums(pairs, columns, side) for side in (0, 1)]
        self._observed = self._slack = 0.0
        self.worse = self.ties = self.tried = 0

    def go_on(self) -> bool:
        """Looks at the ways that the pairs have now; False where there is no score to test."""
        before, now = (
            self._formula.evaluate_many(evaluate_metrics(self._metrics, sums)).values
            for sums in self._sums
        )
        change = self._sign * (now - before)
        if not self.tried:  # the first way swaps nothing
            self._observed = change[0]
            self._slack = _ROUNDING * max(abs(before[0]), abs(now[0]))
        observed, slack = self._observed, self._slack
        # A swap that has no score counts against the claim.
        self.worse += int(np.sum(~(change > observed + slack)))
        self.ties += int(np.sum(np.abs(change - observed) <= slack))
        self.tried += len(change)
        return not np.isnan(observed)


def try_swaps(
    formulas: Sequence[tuple[Formula, bool]], first: CaseTable, second: CaseTable, *, seed: int = 0
) -> list[SwapTest | None]:
    """The units of two runs, pair by pair; None where a formula is undefined for one of them.

    With each formula comes whether more of it is worse. Those over the same units share the ways.
    """
    found: list[SwapTest | None] = [None] * len(formulas)
    groups: dict[bytes, tuple[Rows, list[int]]] = {}
    for at, (formula, _) in enumerate(formulas):
        relevant = CaseColumns(first, formula.names).relevant
        groups.setdefault(relevant.tobytes(), (relevant, []))[1].append(at)
    for relevant, places in groups.values():
        pairs = _Pairs(first.pick(relevant), second.pick(relevant))
        trials = {
            at: _Trial(pairs, formulas[at][0], -1.0 if formulas[at][1] else 1.0) for at in places
        }
        for ways in _list_ways(len(relevant), seed) if len(relevant) else ():
            pairs.take(ways)
            trials = {at: trial for at, trial in trials.items() if trial.go_on()}
            if not trials:
                break
        half = len(relevant) >= _FEW_UNITS
        for at, trial in trials.items() if len(relevant) else ():
            worse = trial.worse - trial.ties / 2 if half else trial.worse
            found[at] = SwapTest(worse / trial.tried, len(relevant))
    return found


def _list_ways(units: int, seed: int) -> Iterator[Array]:
    """Which units change sides, in blocks of rows; the first row swaps none."""
    if units <= _ALL_WAYS:
        yield (np.arange(2**units)[:, None] >> np.arange(units) & 1).astype(np.float64)
        return
    rng = np.random.default_rng(seed)
    at_once = max(1, _CELLS // units)
    for done in range(0, _WAYS, at_once):
        rows = min(at_once, _WAYS - done)
        # The first bit of each byte: what `rng.integers(0, 2, ...)` gives, five times as quickly.
        drawn = np.frombuffer(rng.bytes(rows * units), dtype=np.uint8) >> 7
        ways = drawn.reshape(rows, units).astype(np.float64)
        if not done:
            ways[0] = 0.0
        yield ways


def pair_units(
    shared: Sequence[str],
    tallies: tuple[Tally, Tally],
    results: tuple[Sequence[CaseResult], Sequence[CaseResult]],
) -> tuple[list[Unit], list[Unit]]:
    """Units to swap when there are few cases: single results, if both runs have the same ones. A
    case whose epochs are exactly equal is one unit: it ran once.
    """
    before, now = (tally.cases for tally in tallies)
    first, second = (_split_epochs(set(shared), each) for each in results)
    units: tuple[list[Unit], list[Unit]] = ([], [])
    for case in shared:
        one, two = first[case], second[case]
        if one.keys() != two.keys() or _are_alike(one) or _are_alike(two):
            units[0].append((case, before[case]))
            units[1].append((case, now[case]))
            continue
        units[0].extend((case, one[epoch]) for epoch in sorted(one))
        units[1].extend((case, two[epoch]) for epoch in sorted(one))
    return units


def _split_epochs(
    shared: set[str], results: Sequence[CaseResult]
) -> dict[str, dict[int, CaseCounts]]:
    by_epoch: dict[int, list[CaseResult]] = {}
    for result in results:
        if result.case in shared:
            by_epoch.setdefault(result.epoch, []).append(result)
    found: dict[str, dict[int, CaseCounts]] = {case: {} for case in shared}
    for epoch, each in by_epoch.items():
        for case, counts in Tally(each).cases.items():
            found[case][epoch] = counts
    return found


def _are_alike(epochs: Mapping[int, CaseCounts]) -> bool:
    counts = list(epochs.values())
    return len(counts) > 1 and all(each == counts[0] for each in counts)
