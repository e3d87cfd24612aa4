"""Gates: is a run good enough to go on?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.text import UNDEFINED

if TYPE_CHECKING:
    from tallymark.runs.run import Run


def find_shortfall(run: Run, at_least: float) -> str | None:
    """Why a run's score is not enough, if it is not; a missing score never is."""
    record = run.record
    if record.score is None:
        why = run.explain_no_score()
        return f"{record.model} has no score, which counts as under {at_least:g}: {why}"
    if record.score < at_least:
        return f"{record.model} scored {record.score:g}, under {at_least:g}"
    return None


def find_weak_scorers(run: Run, at_least: float) -> list[str]:
    """The scorers whose mean is not enough; one that only gives labels has none to be weak."""
    return [
        f"{name} is {UNDEFINED if each.mean is None else f'{each.mean:g}'}; wanted is {at_least:g}"
        for name, each in run.scorers.items()
        if (each.mean is None or each.mean < at_least) and not (each.labels and each.mean is None)
    ]


def find_unscored(run: Run) -> list[str]:
    """The scorers that could not score anything, each with the first reason."""
    return [
        f"{name} could not score anything: {each.first_error}"
        for name, each in run.scorers.items()
        if each.unscored and not each.scored
    ]
