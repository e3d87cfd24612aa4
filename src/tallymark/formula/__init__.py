"""Formulas: a small language for saying what a good score is.

>>> Formula.parse("success_pct / total_cost").evaluate({"success_pct": 80, "total_cost": 0.5})
160.0
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.formula.formula import Formula
from tallymark.formula.formula_names import (
    MORE_METRICS,
    RUN_METRICS,
    Names,
    Variable,
    eval_name_problems,
)
from tallymark.formula.parser import FormulaLimits as Limits

if TYPE_CHECKING:
    from tallymark.formula.lint import Finding, Lint

__all__ = [
    "MORE_METRICS",
    "RUN_METRICS",
    "Finding",
    "Formula",
    "Limits",
    "Lint",
    "Names",
    "Variable",
    "eval_name_problems",
]


def __getattr__(name: str) -> Any:
    if name in ("Finding", "Lint"):  # only linting needs them: most formulas are only evaluated
        return getattr(import_module("tallymark.formula.lint"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
