"""Formulas without a run: records and operations to check and explain them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tallymark.errors import FormulaError, Place
from tallymark.formula import MORE_METRICS, RUN_METRICS, Formula, Names
from tallymark.service.callers import PUBLIC
from tallymark.service.operations import Resource, operation

Text = Annotated[
    str, Meta(min_length=1, max_length=4096, examples=["success_pct / max(total_cost, 0.0001)"])
]
EvalNames = Annotated[
    Sequence[str],
    Meta(max_length=1000, description="Evals that it may name.", examples=[["critical-math"]]),
]
Values = Annotated[
    Mapping[str, float | None],
    Meta(description="Null is missing.", examples=[{"success_pct": 80, "total_cost": 0.0177}]),
]


class FormulaMistake(msgspec.Struct, frozen=True, kw_only=True):
    """A mistake in a formula: what is wrong, where, and how to fix it."""

    message: str
    place: Place | None
    hint: str | None


class FormulaFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a formula that its author should know. `code` is stable."""

    code: str
    level: Literal["warning", "note"]
    message: str
    line: int | None
    column: int | None
    hint: str | None


class FormulaRange(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of all results; null has no bound."""

    low: float | None
    high: float | None


class FormulaCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The mistakes of a formula, or what its results can be."""

    valid: bool
    formula: str
    names: list[str]
    problems: list[FormulaMistake]
    findings: list[FormulaFinding]
    range: Annotated[
        FormulaRange | UnsetType | None, Meta(description="Null if there never is a result.")
    ] = UNSET
    directions: Annotated[
        dict[str, str] | UnsetType, Meta(description="How the result moves with each name.")
    ] = UNSET
    may_divide_by_zero: bool | UnsetType = UNSET


class FormulaTerm(msgspec.Struct, frozen=True, kw_only=True):
    """A term of a formula with its part of the score."""

    term: str
    value: float
    contribution: float | None
    error: str | None
    share: float | None


class FormulaStep(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a formula with its value, and the parts that it is computed from."""

    text: str
    value: float | None
    error: str | None
    parts: list[FormulaStep]


class FormulaExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A formula with values, and the contribution of each term."""

    formula: str
    score: float | None
    score_error: str | None
    substituted: Annotated[str, Meta(description="The formula with numbers instead of names.")]
    terms: list[FormulaTerm]
    tree: FormulaStep


class Formulas(Resource):
    """Formulas, checked and explained without a run."""

    @operation("POST /formula/check", PUBLIC, reads=True)
    def check(self, formula: Text, names: EvalNames = ()) -> FormulaCheck:
        """Find the mistakes of a formula of a run, or the range of its results."""
        try:
            parsed = Formula.parse(formula, Names.of_run(names))
        except FormulaError as error:
            problems = [
                FormulaMistake(message=each.message, place=each.place, hint=each.hint)
                for each in error.problems
            ]
            return FormulaCheck(
                valid=False, formula=formula, names=[], problems=problems, findings=[]
            )
        report = {"valid": True, "formula": str(parsed), "names": parsed.names, "problems": ()}
        return msgspec.convert(report | parsed.lint().to_dict(), FormulaCheck)

    @operation("POST /formula/explain", PUBLIC, reads=True)
    def explain(self, formula: Text, values: Values = {}) -> FormulaExplanation:  # noqa: B006
        """Compute a formula with values, and the contribution of each term."""
        parsed = Formula.parse(formula, [*RUN_METRICS, *MORE_METRICS, *values])
        return msgspec.convert(parsed.explain(values).to_dict(), FormulaExplanation)
