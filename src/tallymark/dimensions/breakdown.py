"""`breakdown`: what each dimension adds to the total, the score that is shown, and the result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from tallymark.dimensions.dimension import (
    MAX_SCORE,
    Dimension,
    WeightedDimension,
    clamp_score,
    to_fraction,
    to_json_number,
)
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.scoring.score import show_value

Result = Literal["win", "draw", "loss"]
Severity = Literal["error", "warning"]
SOLO_WIN_THRESHOLD = 700
SOLO_DRAW_THRESHOLD = 400


def result_of(score: int) -> Result:
    """700 and more is a win, 400 to 699 a draw, less a loss."""
    if score >= SOLO_WIN_THRESHOLD:
        return "win"
    return "draw" if score >= SOLO_DRAW_THRESHOLD else "loss"


@dataclass(frozen=True, slots=True)
class SubmissionWarning:
    """Finding of a format check: an "error" zeroes its dimension, a "warning" is advice."""

    message: str
    severity: Severity = "warning"
    dimension: str | None = None

    def __post_init__(self) -> None:
        """Refuse a severity that does not exist, and an error that would zero nothing."""
        if self.severity not in get_args(Severity):
            raise InvalidInput(
                f"a warning's severity is 'error' or 'warning', not {show_value(self.severity)}"
            )
        if self.severity == "error" and self.dimension is None:
            raise InvalidInput(
                f"the error {show_value(self.message)} names no dimension to score 0",
                hint="name one, or make it a warning",
            )


@dataclass(frozen=True, slots=True)
class Part:
    """One dimension's place in a breakdown; its score lies within 0-1000."""

    dimension: Dimension
    weight: Fraction
    score: Fraction

    @property
    def weighted(self) -> Fraction:
        """Exact contribution to the total."""
        return self.score * self.weight

    def to_dict(self) -> dict[str, int | float]:
        """The dimension's entry in `score_breakdown`."""
        numbers = {"score": self.score, "weight": self.weight, "weighted": self.weighted}
        return {name: to_json_number(number) for name, number in numbers.items()}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A scored submission, with everything that a competitor needs to check the arithmetic."""

    parts: tuple[Part, ...]
    warnings: tuple[SubmissionWarning, ...] = ()
    constraint_violations: tuple[str, ...] = ()
    harness_warning: str | None = None

    @property
    def total(self) -> Fraction:
        """The sum of (score x weight), exactly, at most 1000."""
        return clamp_score(sum((part.weighted for part in self.parts), Fraction(0)))

    @property
    def score(self) -> int:
        """The total without its fraction: the score that is shown, ranked and judged."""
        # Of an exact fraction: a total of 700 is never shown, and judged, as 699.
        return math.floor(self.total)

    @property
    def result(self) -> Result:
        """Win, draw or loss, by the shown score."""
        return result_of(self.score)

    def to_dict(self) -> dict[str, Any]:
        """The response to a submission; `harness_warning` only when there is one."""
        response: dict[str, Any] = {
            "score": self.score,
            "result": self.result,
            "score_breakdown": {part.dimension.key: part.to_dict() for part in self.parts},
            "submission_warnings": [asdict(warning) for warning in self.warnings],
            "constraint_violations": list(self.constraint_violations),
        }
        if self.harness_warning is not None:
            response["harness_warning"] = self.harness_warning
        return response


def breakdown(
    dimensions: Sequence[WeightedDimension],
    raw_scores: Mapping[str, float],
    warnings: Iterable[SubmissionWarning] = (),
    *,
    constraint_violations: Iterable[str] = (),
    harness_warning: str | None = None,
) -> Breakdown:
    """Weigh the raw scores, each clamped to 0-1000, with the dimensions that `dims()` gave.

    A dimension that a warning of severity "error" zeroes needs no raw score.
    """
    given = tuple(warnings)
    keys = [weighted.key for weighted in dimensions]
    named = [warning.dimension for warning in given if warning.dimension is not None]
    problems = [_explain_unknown(key, keys, "a score") for key in raw_scores if key not in keys]
    problems += [_explain_unknown(key, keys, "a warning") for key in named if key not in keys]
    zeroed = {warning.dimension for warning in given if warning.severity == "error"}
    scores = {key: _read_score(key, raw_scores, key in zeroed, problems) for key in keys}
    if problems:
        raise InvalidInput(problems)
    return Breakdown(
        tuple(Part(each.dimension, each.weight, scores[each.key]) for each in dimensions),
        given,
        tuple(constraint_violations),
        harness_warning,
    )


def _read_score(
    key: str, raw_scores: Mapping[str, float], zeroed: bool, problems: list[Problem]
) -> Fraction:
    zero = Fraction(0)
    if key not in raw_scores:
        if not zeroed:
            hint = f"give a number from 0 to {MAX_SCORE}"
            problems.append(Problem(f"dimension {key!r} has no score", hint=hint))
        return zero
    number = to_fraction(raw_scores[key])
    if number is None:
        got = show_value(raw_scores[key])
        problems.append(Problem(f"the score of {key!r} must be a finite number, not {got}"))
        return zero
    return zero if zeroed else clamp_score(number)


def _explain_unknown(key: object, keys: list[str], what: str) -> Problem:
    close = suggest(key, keys) if isinstance(key, str) else None
    hint = f"did you mean {close!r}?" if close else f"its dimensions are {', '.join(keys)}"
    return Problem(
        f"there is {what} for {show_value(key)}, which this challenge does not weigh", hint=hint
    )
