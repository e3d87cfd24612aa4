"""Evaluators: one file per type, each judging a submission the same way every time.

A new type is a module here with its `EVALUATOR`, and a name in the table of `evaluator_types`.
"""

from tallymark.challenges.evaluators.evaluator_kind import (
    EvaluationSetting,
    EvaluatorKind,
    Submitted,
)
from tallymark.challenges.evaluators.evaluator_types import EVALUATORS, evaluate, find_evaluator

__all__ = [
    "EVALUATORS",
    "EvaluationSetting",
    "EvaluatorKind",
    "Submitted",
    "evaluate",
    "find_evaluator",
]
