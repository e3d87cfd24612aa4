"""Page of the formula bench: a formula applied to a run or a board."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.attempt_formula import AttemptFormula, formula_names
from tallymark.errors import FormulaError, Problem, TallymarkError
from tallymark.formula import Formula, Names
from tallymark.formula.functions import FUNCTIONS
from tallymark.runs.problems import name_model
from tallymark.runs.record import RunRecord
from tallymark.service.boards import WhatIfBoard
from tallymark.service.challenges import Challenge
from tallymark.web.formula_tree import FormulaTree, Mistake, describe_mistake, take_apart
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.run import name_values, pick_metrics

_MOST_TEXT = 4_096
_MOST_RUNS = 30
_MOST_BOARDS = 100
_MOST_PLACES = 50
_START = "success_pct"

_COLUMNS = ("rank", "agent", "score", "value", "attempt", "before", "moved")
"""CSV columns of a board under a tried formula."""


class OrderLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run ranked by this formula and by its own."""

    run: RunRecord
    place: int
    was: int
    value: float | None
    reason: str | None

    @property
    def moved(self) -> int:
        """Places gained; negative if lost."""
        return self.was - self.place


class BenchChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge whose board a formula can reorder."""

    name: str
    title: str


class FormulaView(View, frozen=True, kw_only=True):
    """A formula with its analysis and its effect."""

    formula: str
    mistakes: list[Mistake]
    notes: list[Mistake]
    low: float | None
    high: float | None
    directions: dict[str, str]
    tree: FormulaTree | None
    run: RunRecord | None
    runs: list[RunRecord]
    """Choices."""
    order: list[OrderLine]
    """Runs reordered by this formula."""
    challenges: list[BenchChallenge]
    """Challenges to choose instead of a run."""
    challenge: BenchChallenge | None
    board: WhatIfBoard | None
    """The board under this formula."""
    names: dict[str, float | None]
    functions: list[str]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each run or agent in its new place."""
        if self.board is not None:
            yield from (
                {name: getattr(each, name) for name in _COLUMNS} for each in self.board.items
            )
        for each in self.order:
            yield {
                "place": each.place,
                "was": each.was,
                "run": each.run.id,
                "model": name_model(each.run),
                "value": each.value,
                "score": each.run.score,
                "error": each.reason,
            }


class _Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of a formula: a run, a board, or only names."""

    names: Names
    text: str
    values: Mapping[str, float | None] = {}
    run: RunRecord | None = None
    challenge: Challenge | None = None


def gather(request: PageRequest) -> FormulaView:
    """Gather the formula in the URL, applied to a run or a board."""
    may = request.visitor.may_read_runs
    records = [*request.tally.runs.newest(_MOST_RUNS, None, request.get("formula"))] if may else []
    boards = [each for each in request.tally.challenges.list() if each.kind != "versus"]
    subject = _choose_subject(request, records)
    challenge = subject.challenge
    view: dict[str, Any] = {
        "title": "Formula bench",
        "formula": subject.text,
        "run": subject.run,
        "runs": records,
        "challenges": [_describe_challenge(each) for each in boards[:_MOST_BOARDS]],
        "challenge": None if challenge is None else _describe_challenge(challenge),
        "names": {name: subject.values.get(name) for name in sorted(subject.names)},
        "functions": sorted(FUNCTIONS),
    }
    try:
        formula = Formula.parse(subject.text[: _MOST_TEXT + 1], subject.names)
    except FormulaError as error:
        mistakes = [describe_mistake(each) for each in error.problems]
        return FormulaView(
            **view, mistakes=mistakes, notes=[], low=None, high=None, directions={}, tree=None,
            order=[], board=None,
        )  # fmt: skip
    lint = formula.lint()
    ends = lint.to_dict()["range"] or {"low": None, "high": None}
    tree, board = None, None
    if subject.run is not None:
        tree = take_apart(formula, subject.names, subject.values)
    elif challenge is not None:
        board = _ask_board(request, challenge, subject.text)
        tree = _explain_first(request, challenge, board, formula)
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
        tree=tree,
        order=_order_runs(request, subject.text, subject.run) if subject.run else [],
        board=board,
    )


def _describe_challenge(challenge: Challenge) -> BenchChallenge:
    return BenchChallenge(name=challenge.name, title=challenge.title or challenge.name)


def _choose_subject(request: PageRequest, records: list[RunRecord]) -> _Subject:
    """Choose the board in the URL, else a run; `on` is the page's select field."""
    kind, _, name = request.get("on").partition(":")
    board = name if kind == "board" else request.get("challenge") if kind != "run" else ""
    text = request.get("formula")
    if board:
        challenge = request.tally.challenges.get(board)
        keys = [each.key for each in challenge.scoring.dimensions]
        names = formula_names(keys, tuple(challenge.metrics))
        usual = challenge.scoring.formula or ("total" if keys else "rating")
        return _Subject(names=names, text=text or usual, challenge=challenge)
    run = _choose_run(request, name if kind == "run" else request.get("run"), records)
    if run is None:
        return _Subject(names=Names.of(None), text=text or _START)
    text = text or run.score_formula
    metrics = pick_metrics(run.metrics, text)
    return _Subject(names=name_values(metrics), text=text, values=metrics, run=run)


def _ask_board(request: PageRequest, challenge: Challenge, text: str) -> WhatIfBoard:
    return request.tally.boards.what_if(
        challenge.name,
        formula=text,
        around=request.visitor.agent,
        limit=_MOST_PLACES,
        live=not request.public,
    )


def _explain_first(
    request: PageRequest, challenge: Challenge, board: WhatIfBoard, formula: Formula
) -> FormulaTree | None:
    """Expand the formula with the values of the agent that would be first."""
    if not board.items:
        return None
    try:
        attempt = request.tally.attempts.view(
            board.items[0].attempt or "", not request.public
        ).attempt
        values = AttemptFormula(formula).values_of(challenge, attempt)
    except TallymarkError:
        return None
    return take_apart(formula, formula.declared, values)


def _choose_run(request: PageRequest, wanted: str, records: list[RunRecord]) -> RunRecord | None:
    if wanted:
        request.visitor.require_runs()
        return request.tally.runs.brief(wanted, request.get("formula"))
    ended = (each for each in records if each.score is not None)  # one that runs has few numbers
    return next(ended, records[0] if records else None)


def _order_runs(request: PageRequest, text: str, chosen: RunRecord) -> list[OrderLine]:
    """Order the runs of the suite by this formula; runs without a value come last."""
    records = [*request.tally.runs.newest(_MOST_RUNS, chosen.suite, text)]
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
            found.append((record, None, f"it lacks {missing[0]}"))
            continue
        found.append((record, formula.evaluate(metrics), formula.reason(metrics)))
    before = sorted(records, key=lambda each: (each.score is None, -(each.score or 0.0)))
    was = {each.id: place for place, each in enumerate(before, 1)}
    found.sort(key=lambda each: (each[1] is None, -(each[1] or 0.0), was[each[0].id]))
    return [
        OrderLine(run=record, place=place, was=was[record.id], value=value, reason=reason)
        for place, (record, value, reason) in enumerate(found, 1)
    ]


PAGE = Page("/formula", "formula.html", gather, {"result": "formula_result.html"})
