"""Terms of a formula with their values and best possible values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from tallymark.errors import FormulaError, Problem
from tallymark.formula import Formula, Names
from tallymark.formula.bounds import Analysis
from tallymark.formula.explanation import ContributedTerm, Explanation


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """An error or a note about a formula, with its place."""

    message: str
    hint: str | None
    column: int | None
    caret: str | None
    """The formula with a marker under the place."""
    level: str = "error"


class FormulaPart(msgspec.Struct, frozen=True, kw_only=True):
    """A term of the formula, or a name in it."""

    text: str
    depth: int
    value: float | None = None
    points: float | None = None
    """Points that it adds to the score; None for a name."""
    share: float | None = None
    best: float | None = None
    lost: float | None = None
    from_: float = 0.0
    """Start and width of its bar, from 0 to 1."""
    width: float = 0.0
    missing: str = ""
    """Reason why a name has no value."""

    @property
    def is_term(self) -> bool:
        return self.depth == 1


class FormulaTree(msgspec.Struct, frozen=True, kw_only=True):
    """A formula with its values."""

    formula: str
    value: float | None
    reason: str | None
    substituted: str
    parts: list[FormulaPart]
    best: float | None
    """Highest possible sum of the terms; None if one has no bound."""
    lines: list[str]
    """The tree as text."""

    @property
    def lost(self) -> float | None:
        if self.best is None or self.value is None:
            return None
        return max(0.0, self.best - self.value)

    @property
    def lost_share(self) -> float:
        return (self.lost or 0.0) / self.best if self.best else 0.0


def take_apart(formula: Formula, names: Names, values: Mapping[str, float | None]) -> FormulaTree:
    """Expand a formula with the values of a run or an attempt."""
    explained = formula.explain(values)
    bests = [_find_best(term, names) for term in explained.terms]
    best = math.fsum(each for each in bests if each is not None) if explained.terms else None
    if any(each is None for each in bests) or best is None or best <= 0:
        best, bests = None, [None] * len(bests)
    parts = [
        part
        for each in _place_terms(explained, bests, best)
        for part in (each, *_list_names(each.text, names, values))
    ]
    if not explained.terms:
        parts = list(_list_names(formula.text, names, values))
    return FormulaTree(
        formula=formula.text,
        value=explained.value,
        reason=explained.reason,
        substituted=explained.shown,
        parts=parts,
        best=best,
        lines=explained.lines(reasons=True),
    )


def _place_terms(
    explained: Explanation, bests: list[float | None], best: float | None
) -> list[FormulaPart]:
    """Lay out a bar for each term; lost points follow one another down from the best."""
    largest = max((abs(term.contribution or 0.0) for term in explained.terms), default=0.0)
    found, at = [], 1.0
    for term, most in zip(explained.terms, bests, strict=True):
        points = term.contribution
        lost = None if most is None or points is None else max(0.0, most - points)
        if best and lost is not None:
            width = lost / best
            at -= width
            start = max(0.0, at)
        else:
            start, width = 0.0, abs(points or 0.0) / largest if largest else 0.0
        found.append(
            FormulaPart(
                text=term.text,
                depth=1,
                value=term.value,
                points=points,
                share=term.share,
                best=most,
                lost=lost,
                from_=start,
                width=min(1.0, width),
            )
        )
    return found


def _find_best(term: ContributedTerm, names: Names) -> float | None:
    """Return the highest value of a term by the ranges of its names; None if unbounded."""
    points = term.contribution
    # One that is taken with a factor has another range than its own.
    if points is None or not math.isclose(abs(points), abs(term.value), abs_tol=1e-9):
        return None
    try:
        parsed = Formula.parse(term.text, names)
    except FormulaError:
        return None
    span = Analysis(parsed.tree, names).result.range
    return span.high if span is not None and math.isfinite(span.high) else None


def _list_names(text: str, names: Names, values: Mapping[str, float | None]) -> list[FormulaPart]:
    try:
        used = Formula.parse(text, names).names
    except FormulaError:
        return []
    if list(used) == [text]:  # a term that is a name has been shown
        return []
    return [
        FormulaPart(
            text=name,
            depth=2,
            value=values.get(name),
            missing="" if values.get(name) is not None else "not known",
        )
        for name in used
    ]


def describe_mistake(problem: Problem, level: str = "error") -> Mistake:
    """Describe a problem for a page."""
    place = problem.place
    return Mistake(
        message=problem.message,
        hint=problem.hint,
        column=None if place is None else place.column,
        caret=None if place is None else place.caret(),
        level=level,
    )
