"""The table of evaluators, and `evaluate`.

For any submission, `evaluate` returns an `Evaluation`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.challenge_data import make_attempt_data
from tallymark.challenges.dimension_scores import MISMATCH, list_unknown_dimensions
from tallymark.challenges.evaluators.evaluator_kind import (
    EVALUATION_FAILED,
    evaluate_unusable,
    metrics_of,
)
from tallymark.challenges.evaluators.submission_intake import (
    ReceivedSubmission,
    receive_submission,
)
from tallymark.errors import InvalidInput, TallymarkError, WorkFailed
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
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
_LOADED: dict[str, EvaluatorKind] = {}
_FEW, _FEW_BYTES, _LARGE = 10, 1000, 1e15


def find_evaluator(name: str) -> EvaluatorKind:
    """The type of that name; a stored challenge may have one that is gone."""
    if name in _LOADED:  # called for every attempt
        return _LOADED[name]
    if name not in EVALUATORS:
        hint = f"the evaluators are {', '.join(EVALUATORS)}"
        raise InvalidInput(f"there is no evaluator {show_value(name)}", hint=hint)
    found: EvaluatorKind = import_module(EVALUATORS[name]).EVALUATOR
    _LOADED[name] = found
    return found


def evaluate(submitted: Submitted, setting: EvaluationSetting) -> Evaluation:
    """Judge a submission. Its mistakes cost points; `error` is for what ended its judging.

    Whose failure it is, is decided here for every evaluator. What goes wrong before the submission
    is looked at, and what the machine lacks (a sandbox, memory, a judge that answers), is raised as
    WorkFailed: the attempt waits. The rest may be what the submission was made for, and fails it.
    """
    challenge = setting.challenge
    kind = find_evaluator(challenge.evaluator.type)
    try:
        received = _receive(submitted, challenge)
        if received.refused is not None:
            return evaluate_unusable(submitted, challenge, received.refused)
        if challenge.generate is not None:
            # It is remembered; that it cannot be made is no competitor's doing.
            make_attempt_data(challenge, setting.folder, submitted.seed, setting.policy)
        if received.answer is not submitted.answer:
            submitted = replace(submitted, answer=received.answer)
        found = kind.evaluate(submitted, setting)
    except WorkFailed:
        raise
    except (OSError, MemoryError) as error:
        raise WorkFailed(f"the attempt could not be evaluated here: {show_value(error)}") from None
    except TallymarkError as error:
        reason = "; ".join(str(problem) for problem in error.problems)
        if kind.reported:  # by who is trusted, about what they wrote
            return Evaluation(metrics=metrics_of(submitted), error=reason)
        return _fail(submitted, reason)
    except Exception as error:  # noqa: BLE001 (one attempt must not stop the scoring of others)
        return _fail(
            submitted, f"the evaluator failed: {type(error).__name__}: {show_value(error)}"
        )
    unknown = [] if kind.reported else list_unknown_dimensions(setting.challenge, found)
    if unknown:
        keys = ", ".join(each.key for each in setting.challenge.scoring.dimensions)
        reason = f"there is no dimension {show_value(unknown[0])}; the dimensions are {keys}"
        return Evaluation(metrics=metrics_of(submitted), error=MISMATCH, reason=reason)
    warnings = (*received.warnings, *found.warnings)
    return msgspec.structs.replace(found, warnings=warnings, sandbox=_tell_sandbox(kind, setting))


def _receive(submitted: Submitted, challenge: Challenge) -> ReceivedSubmission:
    """The checked submission; plain numbers from a trusted reporter need no check."""
    answer, submission = submitted.answer, challenge.submission
    plain = (
        submitted.trusted
        and isinstance(answer, dict)
        and submission.schema is None
        and submission.format == "json"
        and submission.max_bytes >= _FEW_BYTES
        and len(answer) <= _FEW
        and all(map(_is_plain, answer.values()))
    )
    return ReceivedSubmission(answer) if plain else receive_submission(answer, submission)


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind is int or kind is float:
        return -_LARGE < value < _LARGE  # type: ignore[operator]
    return kind is bool or value is None


def _tell_sandbox(kind: EvaluatorKind, setting: EvaluationSetting) -> dict[str, Any]:
    """Backends that ran code for an evaluation."""
    challenge = setting.challenge
    if not kind.runs_code and challenge.generate is None:
        return {}
    # The walls load ctypes and subprocess, and most evaluations run no code.
    from tallymark.sandbox.policy import choose_policy  # noqa: PLC0415

    policy = choose_policy() if setting.policy is None else setting.policy
    options = kind.fill(challenge) if kind.runs_code else {}
    limits = {"time_s": options.get("time"), "memory_mb": options.get("memory")}
    known = {name: value for name, value in limits.items() if value is not None}
    return {"backend": policy.backend, **known}


def _fail(submitted: Submitted, reason: str) -> Evaluation:
    """Competitors learn that it failed. Why may quote the truth, a script or a rubric."""
    return Evaluation(metrics=metrics_of(submitted), error=EVALUATION_FAILED, reason=reason)
