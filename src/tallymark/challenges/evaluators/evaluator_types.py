"""The table of evaluators, and `evaluate`, the one way in.

Whatever a competitor sent, `evaluate` gives an `Evaluation`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.evaluators.evaluator_kind import evaluate_unusable, metrics_of
from tallymark.challenges.evaluators.submission_intake import receive_submission
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.evaluators.evaluator_kind import (
        EvaluationSetting,
        EvaluatorKind,
        Submitted,
    )


EVALUATORS = {
    name: f"{__package__}.{name}"
    for name in ("deterministic", "tests", "script", "judge", "reported", "suite")
}
"""By name, the module with its `EVALUATOR`: imported when it is first used, some are heavy."""


def find_evaluator(name: str) -> EvaluatorKind:
    """The type of that name; a stored challenge may have one that is gone."""
    if name not in EVALUATORS:
        hint = f"the evaluators are {', '.join(EVALUATORS)}"
        raise InvalidInput(f"there is no evaluator {show_value(name)}", hint=hint)
    found: EvaluatorKind = import_module(EVALUATORS[name]).EVALUATOR
    return found


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Judge a submission. Its mistakes cost points; `error` is for those of the organiser."""
    challenge = setting.challenge
    try:
        received = receive_submission(submitted.answer, challenge.submission)
        if received.refused is not None:
            return evaluate_unusable(submitted, challenge, received.refused)
        kind = find_evaluator(challenge.evaluator.type)
        found = kind.evaluate(replace(submitted, answer=received.answer), setting)
    except TallymarkError as error:
        return _fail(submitted, "; ".join(str(problem) for problem in error.problems))
    except Exception as error:  # noqa: BLE001 (one attempt must not stop the scoring of others)
        return _fail(
            submitted, f"the evaluator failed: {type(error).__name__}: {show_value(error)}"
        )
    return msgspec.structs.replace(found, warnings=(*received.warnings, *found.warnings))


def _fail(submitted: Submitted, error: str) -> Evaluation:
    return Evaluation(metrics=metrics_of(submitted), error=error)
