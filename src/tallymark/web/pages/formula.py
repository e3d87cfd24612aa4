"""The formula bench: what a formula says of a run, and how runs would be ordered by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import FormulaError, Problem
from tallymark.formula import Formula, Names
from tallymark.formula.functions import FUNCTIONS
from tallymark.web.page import Page, View, Visit
from tallymark.web.pages.run import name_values, pick_metrics
from tallymark.web.run_facts import RunFacts, describe_run
from tallymark.web.score_parts import FormulaTree, take_apart

if TYPE_CHECKING:
    from tallymark.runs.record import RunRecord

_MOST_TEXT = 4_096
_MOST_RUNS = 30
_START = "success_pct"


class Mistake(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a formula, or worth knowing of it, and where."""

    message: str
    hint: str | None
    column: int | None
    caret: str | None
    """The formula with marks under the place."""
    level: str = "error"


class OrderLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run by this formula, and by its own."""

    run: RunFacts
    place: int
    was: int
    value: float | None
    reason: str | None

    @property
    def moved(self) -> int:
        """Places up, or down where it is negative."""
        return self.was - self.place


class FormulaView(View, frozen=True, kw_only=True):
    """A formula, and all that can be said of it."""

    formula: str
    mistakes: list[Mistake]
    notes: list[Mistake]
    low: float | None
    high: float | None
    directions: dict[str, str]
    tree: FormulaTree | None
    run: RunFacts | None
    runs: list[RunFacts]
    """To choose from."""
    order: list[OrderLine]
    names: dict[str, float | None]
    functions: list[str]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each run in its new place."""
        for each in self.order:
            yield {
                "place": each.place,
                "was": each.was,
                "run": each.run.id,
                "model": each.run.model,
                "value": each.value,
                "score": each.run.score,
                "error": each.reason,
            }


def gather(visit: Visit) -> FormulaView:
    """The formula of the address, with the numbers of a run."""
    store = visit.app.store
    may = visit.visitor.may_read_runs and store.exists
    records = store.runs(limit=_MOST_RUNS) if may else []
    chosen = _choose_run(visit, records) if may else None
    text = visit.get("formula") or (chosen.formula if chosen else _START)
    metrics = pick_metrics(chosen.metrics, text) if chosen else {}
    names = name_values(metrics) if chosen else Names.of(None)
    view: dict[str, Any] = {
        "title": "Formula bench",
        "formula": text,
        "run": None if chosen is None else describe_run(chosen),
        "runs": [describe_run(each) for each in records],
        "names": {name: metrics.get(name) for name in sorted(names)},
        "functions": sorted(FUNCTIONS),
    }
    try:
        formula = Formula.parse(text[: _MOST_TEXT + 1], names)
    except FormulaError as error:
        mistakes = [describe_mistake(each) for each in error.problems]
        return FormulaView(
            **view, mistakes=mistakes, notes=[], low=None, high=None, directions={}, tree=None,
            order=[],
        )  # fmt: skip
    lint = formula.lint()
    ends = lint.to_dict()["range"] or {"low": None, "high": None}
    return FormulaView(
        **view,
        mistakes=[],
        notes=[
            describe_mistake(Problem(each.message, each.place, each.hint), each.level)
            for each in lint.findings
        ],
        low=ends["low"],
        high=ends["high"],
        directions={name: way.value for name, way in lint.directions.items()},
        tree=take_apart(formula, names, metrics) if chosen else None,
        order=_order_runs(visit, text, chosen) if chosen else [],
    )


def _choose_run(visit: Visit, records: list[RunRecord]) -> RunRecord | None:
    wanted = visit.get("run")
    if wanted:
        return visit.app.store.run(wanted)
    return records[0] if records else None


def describe_mistake(problem: Problem, level: str = "error") -> Mistake:
    """A problem as a page shows it."""
    place = problem.place
    return Mistake(
        message=problem.message,
        hint=problem.hint,
        column=None if place is None else place.column,
        caret=None if place is None else place.caret(),
        level=level,
    )


def _order_runs(visit: Visit, text: str, chosen: RunRecord) -> list[OrderLine]:
    """The runs of the same suite by this formula; what has no value comes last."""
    records = visit.app.store.runs(suite=chosen.suite, limit=_MOST_RUNS)
    if chosen.id not in {each.id for each in records}:
        records = [chosen, *records]
    found: list[tuple[RunRecord, float | None, str | None]] = []
    for record in records:
        metrics = pick_metrics(record.metrics, text)
        try:
            formula = Formula.parse(text, name_values(metrics))
        except FormulaError as error:
            found.append((record, None, error.problems[0].message))
            continue
        missing = [name for name in formula.names if name not in metrics]
        if missing:
            found.append((record, None, f"it has no {missing[0]}"))
            continue
        found.append((record, formula.evaluate(metrics), formula.reason(metrics)))
    before = sorted(records, key=lambda each: (each.score is None, -(each.score or 0.0)))
    was = {each.id: place for place, each in enumerate(before, 1)}
    found.sort(key=lambda each: (each[1] is None, -(each[1] or 0.0), was[each[0].id]))
    return [
        OrderLine(
            run=describe_run(record), place=place, was=was[record.id], value=value, reason=reason
        )
        for place, (record, value, reason) in enumerate(found, 1)
    ]


PAGE = Page("/formula", "formula.html", gather, {"result": "formula_result.html"})
