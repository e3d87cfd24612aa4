"""One run's score less another's: size, interval and p-value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from tallymark.runs.case_columns import CaseTable
from tallymark.runs.intervals import difference_interval
from tallymark.runs.permutation_test import FEW_CASES, SwapTest, pair_units, try_swaps
from tallymark.runs.run import read_counted, scan_results
from tallymark.runs.statistics import Interval
from tallymark.runs.tally import MetricValues, Tally

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult


class Difference(msgspec.Struct, frozen=True):
    """One score less another, over the cases that both runs have."""

    value: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    """Probability that chance alone makes the second run at least as bad."""
    units: int = 0
    """Number of cases or results that could show a difference."""


class SharedCases:
    """Two runs over the cases that both ran; `with_errors`, that both have."""

    def __init__(
        self,
        first: Sequence[CaseResult],
        second: Sequence[CaseResult],
        tallies: tuple[Tally, Tally] | None = None,
        *,
        with_errors: bool = False,
    ) -> None:
        """`tallies` are the counts of all results, if the caller has them."""
        whole = tallies or (Tally(first), Tally(second))
        names: set[str] = set.intersection(
            *(
                {case for case, counts in tally.cases.items() if with_errors or counts.ran}
                for tally in whole
            )
        )
        # Sorted, so that the order of arrival does not change the result.
        self.names = sorted(names)

        def keep(result: CaseResult) -> bool:
            return result.case in names and (with_errors or result.status != "error")

        one, two = (
            tally
            if len(names) == len(tally.cases) and (with_errors or not tally.errors)
            else Tally(filter(keep, scan_results(results)))
            for tally, results in zip(whole, (first, second), strict=True)
        )
        self.tallies = one, two
        self._cases = [
            CaseTable((case, tally.cases[case]) for case in self.names) for tally in self.tallies
        ]
        self._units = self._cases
        if len(names) < FEW_CASES:
            results = [[*filter(keep, read_counted(each))] for each in (first, second)]
            units = pair_units(self.names, self.tallies, (results[0], results[1]))
            self._units = [CaseTable(each) for each in units]

    @cached_property
    def _metrics(self) -> list[MetricValues]:
        return [tally.metrics() for tally in self.tallies]

    def scores(self, formula: Formula) -> tuple[float | None, float | None]:
        """Values of a formula for both runs over these cases."""
        one, two = (
            tally.score(formula, values).score
            for tally, values in zip(self.tallies, self._metrics, strict=True)
        )
        return one, two

    def differences(
        self, formulas: Sequence[tuple[Formula, bool]], *, seed: int = 0
    ) -> list[Difference]:
        """The second run's score less the first one's, by each formula.

        With each comes whether more of it is worse.
        """
        scores = [self.scores(formula) for formula, _ in formulas]
        known = [at for at, pair in enumerate(scores) if None not in pair]
        tested = try_swaps([formulas[at] for at in known], *self._units, seed=seed)
        found = [Difference()] * len(formulas)
        for at, test in zip(known, tested, strict=True):
            before, now = scores[at]
            interval = difference_interval(formulas[at][0], *self._cases, seed=seed)
            found[at] = Difference(
                (now or 0.0) - (before or 0.0),
                interval if isinstance(interval, Interval) else None,
                None if test is None else test.p_value,
                0 if test is None else test.units,
            )
        return found

    def test(self, formula: Formula, *, seed: int = 0) -> SwapTest | None:
        """True if the second run is worse by more than chance."""
        return try_swaps([(formula, False)], *self._units, seed=seed)[0]
