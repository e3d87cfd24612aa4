"""Evaluators: one file per type, each judging a submission the same way every time."""

from tallymark.challenges.evaluators.evaluator_kind import (
    EvaluationSetting,
    EvaluatorKind,
    Submitted,
)
from tallymark.challenges.evaluators.evaluator_registry import EVALUATORS, evaluate

__all__ = ["EVALUATORS", "EvaluationSetting", "EvaluatorKind", "Submitted", "evaluate"]
