"""`evaluate`: the one way in; whatever a competitor sent, it gives an `Evaluation`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast, get_args

import msgspec

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge import EvaluatorType
from tallymark.challenges.evaluators.evaluator_kind import evaluate_unusable, metrics_of
from tallymark.challenges.evaluators.submission_intake import receive_submission
from tallymark.errors import TallymarkError
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.evaluators.evaluator_kind import (
        EvaluationSetting,
        EvaluatorKind,
        Submitted,
    )


class _EvaluatorTable(Mapping[str, "EvaluatorKind"]):
    """The types by name; each is a module of this folder, imported when it is first used."""

    def __getitem__(self, name: str) -> EvaluatorKind:
        if name not in get_args(EvaluatorType):
            raise KeyError(name)
        # By the type's name, so a module is called like its type; models and suites are heavy.
        return cast("EvaluatorKind", import_module(f"tallymark.challenges.evaluators.{name}"))

    def __iter__(self) -> Iterator[str]:
        return iter(get_args(EvaluatorType))

    def __len__(self) -> int:
        return len(get_args(EvaluatorType))


EVALUATORS: Mapping[str, EvaluatorKind] = _EvaluatorTable()


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Judge a submission. Its mistakes cost points; `error` is for those of the organiser."""
    challenge = setting.challenge
    try:
        received = receive_submission(submitted.answer, challenge.submission)
        if received.refused is not None:
            return evaluate_unusable(submitted, challenge, received.refused)
        kind = EVALUATORS[challenge.evaluator.type]
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
