"""What an evaluator gets, must offer and may be told, and how it begins an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tallymark.challenges.attempt import Evaluation, Metrics
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Evaluator, VersusJudge
    from tallymark.sandbox import Policy

T = TypeVar("T", bound=msgspec.Struct)
MEASURED_DIMENSIONS = frozenset({"speed", "token_efficiency", "call_efficiency"})
"""Dimensions that scoring adds from times and counts; no evaluator gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What an evaluator gets of an attempt."""

    answer: Any
    """A JSON value, a text, texts by file name, or a model's name: see `Submission.format`."""
    seed: int
    agent: str = ""
    number: int = 1
    elapsed_ms: int | None = None
    tokens_total: int | None = None
    cost: float | None = None
    calls: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the competitor claims."""
    trusted: bool = False
    """True when a trusted system reports it; only then are metrics taken from the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSetting:
    """Where an attempt is evaluated."""

    challenge: Challenge
    folder: Path
    policy: Policy | None = None
    """Of the sandbox; None asks the machine what it offers."""
    judge_model: str | None = None
    """A model that judges in place of the challenge's own."""


class EvaluatorKind(Protocol):
    """One type of evaluator. A module is one: it has these two functions."""

    def check(self, challenge: Challenge, folder: Path) -> list[Problem]:
        """What is wrong with the options and the files that they name."""
        ...

    def evaluate(self, submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
        """Judge one submission; the same one with the same seed is judged alike."""
        ...


def own_dimensions(challenge: Challenge) -> list[str]:
    """The dimensions that the evaluator has to score."""
    return [
        each.key for each in challenge.scoring.dimensions if each.key not in MEASURED_DIMENSIONS
    ]


def metrics_of(submitted: Submitted, **found: Any) -> Metrics:
    """The metrics of an attempt: what the server knows, and what the evaluator found."""
    known = {
        "elapsed_ms": submitted.elapsed_ms,
        "tokens_total": submitted.tokens_total,
        "cost": submitted.cost,
        "calls": submitted.calls,
    }
    return Metrics(**known | found)


def raw_score(exactly: Fraction) -> float:
    """A score for JSON, rounded up at the ninth decimal.

    Rounded down, two thirds of 1000 weighed by 0.75 would be less than 500, and show as 499.
    """
    return float(Fraction(math.ceil(exactly * 10**9), 10**9))


def make_warning(
    message: str, *, severity: str = "warning", dimension: str | None = None
) -> dict[str, Any]:
    """One of an evaluation's warnings."""
    return {"message": message, "severity": severity, "dimension": dimension}


def evaluate_unusable(submitted: Submitted, challenge: Challenge, message: str) -> Evaluation:
    """The evaluation of what cannot be judged at all: 0 in every dimension, speed included."""
    keys: list[str | None] = [each.key for each in challenge.scoring.dimensions]
    return Evaluation(
        metrics=metrics_of(submitted, succeeded=False),
        dimensions=dict.fromkeys(own_dimensions(challenge), 0.0),
        warnings=tuple(
            make_warning(message, severity="error", dimension=key) for key in (keys or [None])
        ),
    )


def check_options(evaluator: Evaluator, kind: type[T]) -> tuple[T | None, list[Problem]]:
    """The options as their type, or None and what is wrong with them."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    problems = []
    for key in evaluator.options:
        if key not in known and not key.startswith("x-"):
            near = suggest(key, known)
            hint = f"did you mean {near!r}?" if near else f"its options are {', '.join(known)}"
            message = f"evaluator: {evaluator.type} has no option {show_value(key)}"
            problems.append(Problem(message, hint=hint))
    if problems:
        return None, problems
    try:
        return read_options(evaluator, kind), []
    except InvalidInput as error:
        return None, list(error.problems)


def read_options(evaluator: Evaluator | VersusJudge, kind: type[T]) -> T:
    """The options as their type; those that begin with `x-` are the author's own."""
    given = {key: value for key, value in evaluator.options.items() if not key.startswith("x-")}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "").replace("$.", "")
        raise InvalidInput(f"evaluator: {said}") from None


def find_inner_file(folder: Path, name: str, what: str) -> Path:
    """A file of the challenge by its name; nothing outside of the folder is reached."""
    if (problem := find_name_problem(name)) is not None:
        raise InvalidInput(
            f"{what}: {show_value(name)} cannot be a file of the challenge: {problem}"
        )
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise InvalidInput(f"{what}: there is no file {name} in the challenge")
    return path
