"""`--fail-under`: is the outcome good enough to go on?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.text import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.runs.metrics import FormulaScore
    from tallymark.runs.scorer_summary import ScorerSummary


def find_shortfalls(
    at_least: float, formula: FormulaScore | None, scorers: Mapping[str, ScorerSummary]
) -> list[str]:
    """Why the formula's score, or without a formula the mean of a scorer, is not enough."""
    values = (
        {name: each.mean for name, each in scorers.items() if not _has_only_labels(each)}
        if formula is None
        else {formula.formula: formula.score}
    )
    return [
        f"{name} is {UNDEFINED if value is None else f'{value:g}'}; wanted is {at_least:g}"
        for name, value in values.items()
        if value is None or value < at_least
    ]


def _has_only_labels(summary: ScorerSummary) -> bool:
    return bool(summary.labels) and summary.mean is None


def find_unscored(scorers: Mapping[str, ScorerSummary]) -> list[str]:
    """The scorers that could not score anything, each with the first reason."""
    return [
        f"{name} could not score anything: {each.first_error}"
        for name, each in scorers.items()
        if each.unscored and not each.scored
    ]
