"""Formulas: a small language for saying what a good score is.

>>> Formula.parse("success_pct / total_cost").evaluate({"success_pct": 80, "total_cost": 0.5})
160.0
"""

from tallymark.formula.formula import Formula
from tallymark.formula.formula_names import RUN_METRICS, Names, Variable, eval_name_problems
from tallymark.formula.lint import Finding, Lint
from tallymark.formula.parser import FormulaLimits as Limits

__all__ = [
    "RUN_METRICS",
    "Finding",
    "Formula",
    "Limits",
    "Lint",
    "Names",
    "Variable",
    "eval_name_problems",
]
