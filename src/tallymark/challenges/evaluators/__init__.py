"""Evaluators: one file per type, each judging a submission the same way every time.

A new type is a module here, called like the type; its name goes to `EvaluatorType` in
`challenges.challenge`, its options to `evaluator_format`.
"""

from tallymark.challenges.evaluators.evaluator_kind import (
    EvaluationSetting,
    EvaluatorKind,
    Submitted,
)
from tallymark.challenges.evaluators.evaluator_types import EVALUATORS, evaluate

__all__ = ["EVALUATORS", "EvaluationSetting", "EvaluatorKind", "Submitted", "evaluate"]
