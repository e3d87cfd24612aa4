"""One run's score less another's: how much, how sure, and how likely by luck alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.intervals import difference_interval
from tallymark.runs.statistics import Interval
from tallymark.runs.swap_test import SwapTest, pair_units, try_swaps
from tallymark.runs.tally import Tally

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult


class Difference(msgspec.Struct, frozen=True):
    """One score less another, over the cases that both runs have."""

    value: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    """How often luck alone makes the second run at least as bad as it is."""
    units: int = 0
    """How many cases or results could show it."""


class SharedCases:
    """Two runs over the cases that both ran; `with_errors`, that both have."""

    def __init__(
        self,
        first: Sequence[CaseResult],
        second: Sequence[CaseResult],
        *,
        with_errors: bool = False,
    ) -> None:
        ran = [
            [each for each in results if with_errors or each.status != "error"]
            for results in (first, second)
        ]
        names = {each.case for each in ran[0]} & {each.case for each in ran[1]}
        # Sorted: the same results in another order of arrival come to the same.
        self.names = sorted(names)
        self.results = tuple([each for each in results if each.case in names] for results in ran)
        self.tallies = Tally(self.results[0]), Tally(self.results[1])
        counted = [tally.cases for tally in self.tallies]
        self._counts = [{case: found[case] for case in self.names} for found in counted]
        self._units = pair_units(self.names, self.tallies, (self.results[0], self.results[1]))

    def difference(
        self, formula: Formula, *, higher_is_worse: bool = False, seed: int = 0
    ) -> Difference:
        """The second run's score less the first one's."""
        before, now = (tally.score(formula).score for tally in self.tallies)
        if before is None or now is None:
            return Difference()
        tested = self.test(formula, higher_is_worse=higher_is_worse, seed=seed)
        interval = difference_interval(formula, *self._counts, seed=seed)
        return Difference(
            now - before,
            interval if isinstance(interval, Interval) else None,
            None if tested is None else tested.p_value,
            0 if tested is None else tested.units,
        )

    def test(
        self, formula: Formula, *, higher_is_worse: bool = False, seed: int = 0
    ) -> SwapTest | None:
        """Whether the second run is worse by more than luck."""
        return try_swaps(formula, *self._units, higher_is_worse=higher_is_worse, seed=seed)
