"""Gates: is a run good enough to go on?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput
from tallymark.runs.case_verdict import THRESHOLD_ROUNDING
from tallymark.runs.problems import name_model
from tallymark.text import (
    UNDEFINED,
    clean_line,
    format_beside,
    format_number,
    format_score,
    format_value,
)

if TYPE_CHECKING:
    from tallymark.runs.run import Run


def find_shortfall(run: Run, at_least: float) -> str | None:
    """Why a run's score is not enough, if it is not; a missing score never is."""
    record = run.record
    if record.score is None:
        why = run.explain_no_score()
        least = format_number(at_least)
        return f"{name_model(record)} has no score, which counts as under {least}: {why}"
    if not reaches(record.score, at_least):
        score = format_beside(format_score, record.score, at_least)
        return f"{name_model(record)} scored {score}, under {format_number(at_least)}"
    return None


def reaches(value: float, wanted: float) -> bool:
    """True if a value reaches a threshold despite rounding: 100 * 0.58 is a little less than 58."""
    return value + THRESHOLD_ROUNDING * max(1.0, abs(wanted)) >= wanted


def find_too_many_errors(run: Run, allowed: str) -> str | None:
    """Why a gate cannot pass on what ran, if more than `allowed` (`3`, `2%`) could not run."""
    most = read_allowance(allowed, run.tally.finished + run.missing)
    unrun = run.tally.errors + run.missing
    if unrun <= most:
        return None
    said = f"{unrun:,} of {run.tally.finished + run.missing:,} results"
    first = next((each.error for each in run.results if each.status == "error"), None)
    why = f"; the first error: {clean_line(first, 200)}" if first else ""
    return (
        f"{said} of {name_model(run.record)} could not run, and --max-errors allows {allowed}{why}"
    )


def read_allowance(text: str, total: int) -> float:
    """`3` results, or `2%` of all."""
    number = text.strip().removesuffix("%").strip()
    try:
        value = float(number) if text.strip().endswith("%") else int(number)
    except ValueError:
        value = -1
    most = 100 if text.strip().endswith("%") else math.inf
    if not 0 <= value <= most or value == math.inf:
        raise InvalidInput(f"--max-errors {text!r} is no count", hint="as 3, or as 2%")
    return value * total / 100 + THRESHOLD_ROUNDING if text.strip().endswith("%") else value


def read_tolerance(tolerance: float | str, score: float) -> float:
    """Tolerated loss in points: `5`, or `2%` of a score."""
    text = str(tolerance).strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        hint = "give points of the score, as 5, or a share of the baseline's score, as 2%"
        raise InvalidInput(f"the tolerance {text!r} is not a number of 0 or more", hint=hint)
    return value * abs(score) / 100 if text.endswith("%") else value


def require_mean(at_least: float) -> None:
    """Refuses a bound that means of scorers, from 0 to 1, cannot be held against."""
    if not 0 <= at_least <= 1:
        raise InvalidInput(
            f"--fail-under {format_number(at_least)}: without a formula the means of the scorers"
            " are gated, which lie between 0 and 1",
            hint="give a number between them, or gate the percentage that passed:"
            " --formula success_pct",
        )


def find_weak_scorers(run: Run, at_least: float) -> list[str]:
    """The scorers whose mean is not enough; one that only gives labels has none to be weak."""
    return [
        f"the mean of {name}{_name_owner(run)} is {_write_mean(each.mean, at_least)}; wanted is "
        f"{format_number(at_least)}"
        for name, each in run.scorers.items()
        if not (each.labels if each.mean is None else reaches(each.mean, at_least))
    ]


def _name_owner(run: Run) -> str:
    """The model of a run that is one of several."""
    return "" if run.record.group is None else f" of {name_model(run.record)}"


def _write_mean(mean: float | None, wanted: float) -> str:
    return UNDEFINED if mean is None else format_beside(format_value, mean, wanted)


def find_unscored(run: Run) -> list[str]:
    """The scorers that could not score anything, each with the first reason."""
    return [
        f"{name} could not score anything{_name_owner(run)}: {each.first_error}"
        for name, each in run.scorers.items()
        if each.unscored and not each.scored
    ]
