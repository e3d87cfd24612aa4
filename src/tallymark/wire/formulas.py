"""Formulas: checked and explained without a run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tallymark.wire.parts import Asked, Told

Text = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["success_pct / max(total_cost, 0.0001)"])
]


class FormulaCheck(Asked):
    """A formula, and the names of evals that it may use besides a run's metrics."""

    formula: Text
    names: list[str] = Field(default_factory=list, max_length=1000, examples=[["critical-math"]])


class FormulaChecked(Told):
    """What is wrong with a formula, or what its scores can be."""

    valid: bool
    formula: str
    names: list[str] = Field(default_factory=list)
    findings: list[dict[str, Any]] = Field(default_factory=list)
    problems: list[dict[str, Any]] = Field(default_factory=list)


class FormulaExplain(Asked):
    """A formula and values for its names; null is a value that is missing."""

    formula: Text
    values: dict[str, float | int | None] = Field(
        default_factory=dict, examples=[{"success_pct": 80, "total_cost": 0.0177}]
    )


class FormulaExplained(Told):
    """The formula with values, and what each term contributes."""

    formula: str
