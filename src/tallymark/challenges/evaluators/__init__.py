"""Evaluators: one file per type, each judging a submission the same way every time."""

from tallymark.challenges.evaluators.evaluator import EvaluationSetting, EvaluatorKind, Submitted
from tallymark.challenges.evaluators.registry import EVALUATORS, evaluate

__all__ = ["EVALUATORS", "EvaluationSetting", "EvaluatorKind", "Submitted", "evaluate"]
