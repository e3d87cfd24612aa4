"""`/formula`: check and explain, without a run."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from tallymark.api.access import PUBLIC, may
from tallymark.api.answers import answer
from tallymark.api.api_route import make_router
from tallymark.errors import FormulaError
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names
from tallymark.wire.formulas import FormulaCheck, FormulaChecked, FormulaExplain, FormulaExplained

router = make_router("formulas")


@router.post("/formula/check", response_model=FormulaChecked, dependencies=[may(PUBLIC)])
def check_formula(body: FormulaCheck) -> Response:
    """Say what is wrong with a formula, or what its scores can be. A wrong one is no error here."""
    try:
        parsed = Formula.parse(body.formula, Names.of_run(body.names))
    except FormulaError as error:
        return answer(_describe_refusal(body.formula, error))
    told = {"valid": True, "formula": str(parsed), "names": list(parsed.names), "problems": []}
    return answer(told | parsed.lint().to_dict())


@router.post("/formula/explain", response_model=FormulaExplained, dependencies=[may(PUBLIC)])
def explain_formula(body: FormulaExplain) -> Response:
    """Show how a score comes about: the formula with values, and each term's share."""
    names = [*RUN_METRICS, *MORE_METRICS, *body.values]
    return answer(Formula.parse(body.formula, names).explain(body.values).to_dict())


def _describe_refusal(text: str, error: FormulaError) -> dict[str, Any]:
    problems = [problem.to_dict() for problem in error.problems]
    return {"valid": False, "formula": text, "names": [], "findings": [], "problems": problems}
