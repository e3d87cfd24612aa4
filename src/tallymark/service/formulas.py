"""Formulas without a run: what is wrong with one, and how a score comes about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tallymark.errors import FormulaError
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names


def check_formula(text: str, names: Iterable[str]) -> dict[str, Any]:
    """What is wrong with a formula over a run, or what its scores can be; it raises nothing."""
    try:
        parsed = Formula.parse(text, Names.of_run(names))
    except FormulaError as error:
        problems = [problem.to_dict() for problem in error.problems]
        return {"valid": False, "formula": text, "names": [], "findings": [], "problems": problems}
    told = {"valid": True, "formula": str(parsed), "names": list(parsed.names), "problems": []}
    return told | parsed.lint().to_dict()


def explain_formula(text: str, values: Mapping[str, float | None]) -> dict[str, Any]:
    """The formula with values, and what each term contributes."""
    return Formula.parse(text, [*RUN_METRICS, *MORE_METRICS, *values]).explain(values).to_dict()
