"""`/formula`: check and explain, without a run."""

from __future__ import annotations

from fastapi import Response

from tallymark.http.access import PUBLIC, may
from tallymark.http.answers import answer
from tallymark.http.api_route import changes_nothing, make_router
from tallymark.service import formulas
from tallymark.wire.formulas import FormulaCheck, FormulaChecked, FormulaExplain, FormulaExplained

router = make_router("formulas")


@router.post("/formula/check", response_model=FormulaChecked, dependencies=[may(PUBLIC)])
@changes_nothing
def check_formula(body: FormulaCheck) -> Response:
    """Say what is wrong with a formula, or what its scores can be. A wrong one is no error here."""
    return answer(formulas.check_formula(body.formula, body.names))


@router.post("/formula/explain", response_model=FormulaExplained, dependencies=[may(PUBLIC)])
@changes_nothing
def explain_formula(body: FormulaExplain) -> Response:
    """Show how a score comes about: the formula with values, and each term's share."""
    return answer(formulas.explain_formula(body.formula, body.values))
