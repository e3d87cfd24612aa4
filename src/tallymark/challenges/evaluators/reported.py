"""`reported`: a trusted system gives the metrics as the answer; nothing is evaluated here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import COUNTS, Evaluation
from tallymark.challenges.evaluators.evaluator_kind import EvaluatorKind, metrics_of, read_metric
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.scoring.score import make_json_safe, show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.evaluators.evaluator_kind import EvaluationSetting, Submitted

NUMBERS = ("rating", "cost")
MAPPINGS = ("more", "dimensions", "details")


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Take the reported metrics; those that nobody reports stay unknown."""
    if not submitted.trusted:
        message = "the metrics of this challenge are reported by a trusted system"
        raise InvalidInput(f"{message}; they cannot be submitted")
    return read_reported(submitted, setting.challenge)


def read_reported(submitted: Submitted, challenge: Challenge) -> Evaluation:
    """What one mapping tells; InvalidInput tells every mistake in it.

    Beside the metrics there are `dimensions`, `details`, and `more` for metrics of one's own.
    """
    given = submitted.answer
    if not isinstance(given, Mapping):
        raise InvalidInput(f"reported metrics are a mapping, not {show_value(given)}")
    own = [*challenge.evaluator.options.get("metrics", []), *_get_mapping(given, "more")]
    given = {**_get_mapping(given, "more"), **given}
    found: dict[str, Any] = {"succeeded": False}
    more: dict[str, float | None] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        if name in MAPPINGS:
            if not isinstance(value, Mapping):
                problems.append(Problem(f"{name} is a mapping, not {show_value(value)}"))
        elif name == "succeeded":
            found[name] = value
            if not isinstance(value, bool):
                problems.append(Problem(f"succeeded is true or false, not {show_value(value)}"))
        elif name in (*COUNTS, *NUMBERS, *own):
            into = more if name in own else found
            into[name] = read_metric(name, value, problems)
        else:
            problems.append(
                _describe_unknown(name, [*COUNTS, *NUMBERS, "succeeded", *MAPPINGS, *own])
            )
    if problems:
        raise InvalidInput(problems)
    return Evaluation(
        metrics=metrics_of(submitted, **found, more=more),
        dimensions=_get_mapping(given, "dimensions"),
        details=make_json_safe(_get_mapping(given, "details")),
    )


def _get_mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name)
    return dict(value) if isinstance(value, Mapping) else {}


def _describe_unknown(name: object, known: list[str]) -> Problem:
    close = suggest(name, known) if isinstance(name, str) else None
    hint = f"did you mean {close!r}?" if close else f"the metrics are {', '.join(known)}"
    return Problem(f"there is no metric {show_value(name)}", hint=hint)


EVALUATOR = EvaluatorKind(
    help="a trusted system reports the metrics", options={}, evaluate=evaluate, reported=True
)
