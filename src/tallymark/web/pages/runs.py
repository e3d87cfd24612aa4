"""Runs: which is newest, and is it worse?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from tallymark.charts.frame import Chart, list_ends
from tallymark.charts.sparkline import draw_sparkline
from tallymark.runs.comparison import RegressionRule
from tallymark.runs.problems import describe_unrun
from tallymark.runs.record import RunStatus
from tallymark.text import format_score
from tallymark.web.page import Page
from tallymark.web.run_facts import RunFacts, describe_run
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.store import Store
    from tallymark.store.runs.run_rows import RunFilter

_SORTS = ("created_at", "score", "suite", "model", "status")
_MOST_SUITES = 12
_MOST_POINTS = 30


class SuiteLine(msgspec.Struct, frozen=True, kw_only=True):
    """A suite with its newest run."""

    suite: str
    runs: int
    newest: RunFacts
    """The newest that has ended, if any has."""
    scores: list[float | None]
    """Of the last runs, the oldest first."""
    change: float | None
    """Since the run of the same model before it."""

    @property
    def tone(self) -> str:
        """How a page shows the change: as comparisons do, a loss within the tolerance is none."""
        return "quiet" if self.newest.unrun else judge_change(self.change, self.newest.score)

    @property
    def chart(self) -> Chart:
        """The scores as a line."""
        return draw_sparkline(f"Scores of {self.suite}", self.scores, format_score)


class RunsView(View, frozen=True, kw_only=True):
    """The list, and a line for each suite."""

    suites: list[SuiteLine]
    runs: list[RunFacts]
    pager: Pager
    sort: str
    descending: bool
    spans: dict[str, tuple[float, float]]
    """By suite, between which numbers its intervals are drawn: scores of others are others."""
    empty: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each run."""
        for run in self.runs:
            row = msgspec.structs.asdict(run)
            yield row | {"tags": ", ".join(f"{k}={v}" for k, v in run.tags.items())}


def judge_change(change: float | None, score: float | None) -> str:
    """`bad` for a loss beyond the tolerance of a comparison, `good` for as large a gain."""
    before = (score or 0.0) - (change or 0.0)
    if not change or abs(change) <= RegressionRule().allowed_loss(before):
        return "quiet"
    return "good" if change > 0 else "bad"


def list_suites(store: Store, most: int = _MOST_SUITES) -> list[SuiteLine]:
    """The suites with the newest runs, each with its last scores."""
    found = []
    for each in store.suites(most):
        records = store.runs(suite=each.suite, limit=_MOST_POINTS)
        ended = [run for run in records if run.status not in ("queued", "running")]
        newest, *others = ended or records
        # A run that was cut short says nothing of the whole suite.
        whole = (run for run in others if describe_unrun(run) is None)
        before = next((run for run in whole if run.model == newest.model), None)
        known = before is not None and None not in (before.score, newest.score)
        found.append(
            SuiteLine(
                suite=each.suite,
                runs=each.runs,
                newest=describe_run(newest),
                scores=[record.score for record in reversed(ended)],
                change=(newest.score or 0) - (before.score or 0) if known and before else None,
            )
        )
    return found


def gather(visit: Visit) -> RunsView:
    """The runs that the address asks for."""
    visit.visitor.require_runs()
    store = visit.app.store
    if not store.exists:
        return _show_nothing(visit)
    sort = visit.choose("sort", _SORTS)
    descending = visit.choose("order", ("desc", "asc")) == "desc"
    status = visit.choose("status", ("", *get_args(RunStatus)))
    filters: RunFilter = {
        "suite": visit.get("suite") or None,
        "model": visit.get("model") or None,
        "status": cast("RunStatus | None", status or None),
        "group": visit.get("group") or None,
        "text": visit.get("q") or None,
    }
    pager = visit.read_pager(store.count_runs(**filters))
    records = store.runs(
        sort=sort, descending=descending, limit=pager.limit, offset=pager.offset, **filters
    )
    runs = [describe_run(each) for each in records]
    filtered = any(filters.values())
    return RunsView(
        title="Runs",
        suites=[] if filtered or pager.offset else list_suites(store),
        runs=runs,
        pager=pager,
        sort=sort,
        descending=descending,
        spans=_find_spans(runs),
        empty=not filtered and not pager.total,
    )


def _find_spans(runs: list[RunFacts]) -> dict[str, tuple[float, float]]:
    points: dict[str, list[tuple[float, float, float]]] = {}
    for run in runs:
        if (score := run.score) is not None:
            low, high = (score if end is None else end for end in (run.low, run.high))
            points.setdefault(run.suite, []).append((score, low, high))
    drawn = {suite: list_ends(each) for suite, each in points.items()}
    return {suite: (min(each), max(each)) for suite, each in drawn.items()}


def _show_nothing(visit: Visit) -> RunsView:
    return RunsView(
        title="Runs",
        suites=[],
        runs=[],
        pager=visit.read_pager(0),
        sort="created_at",
        descending=True,
        spans={},
        empty=True,
    )


PAGE = Page("/runs", "runs.html", gather)
