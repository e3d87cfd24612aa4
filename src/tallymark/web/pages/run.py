"""One run: why did it lose points?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from tallymark.errors import FormulaError, NeedsJob
from tallymark.formula import Formula, Names, Variable
from tallymark.formula.formula_names import RUN_METRICS
from tallymark.runs.agreement import list_judged
from tallymark.runs.problems import describe_unrun
from tallymark.runs.reports.html_page import html_report
from tallymark.web.page import File, Moved, Page
from tallymark.web.pages.runs import judge_change
from tallymark.web.run_facts import (
    CaseFacts,
    NumberOrigins,
    RunFacts,
    describe_case,
    describe_run,
    explain_metric,
    explain_numbers,
)
from tallymark.web.score_parts import FormulaTree, take_apart
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.runs.record import CaseResult, CaseStatus, RunRecord
    from tallymark.service.app import App

_ORDER: tuple[CaseStatus, ...] = ("failed", "error", "passed")
"""What went wrong stands first."""
_FEW = 5_000
"""Results that are counted again to say why a score has no interval."""
MOST_RESULTS = 30_000
"""Of a run that is counted whole while somebody waits."""
_GOING_ON = ("queued", "running", "interrupted")
_MOST_METRICS = 600
"""Three for each named case: with more, a page would be nothing else."""


_EARLIER = 3
"""Runs among which the one before is looked for."""


class RunBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of the same suite and model, and how the score changed since."""

    id: str
    change: float
    tone: str
    """As `judge_change` gives it."""


class RunView(View, frozen=True, kw_only=True):
    """A run with a page of its cases."""

    run: RunFacts
    no_interval: str | None
    tree: FormulaTree | None
    before: RunBefore | None
    group: list[RunFacts]
    """The other runs of the same command."""
    metrics: dict[str, float | None]
    meanings: dict[str, str]
    """Of each metric, where it comes from."""
    origins: NumberOrigins
    judged: bool
    """Whether models judged some of it, so that there is something to review."""
    cases: list[CaseFacts]
    pager: Pager
    status: str
    text: str
    layout: str
    opened: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each case."""
        for case in self.cases:
            row = msgspec.structs.asdict(case)
            failed = [each.title for each in case.checks if each.outcome != "passed"]
            yield row | {"checks": ", ".join(failed)}


def gather(visit: Visit) -> RunView:
    """The run that the address names, by id or by a beginning of it."""
    visit.visitor.require_runs()
    app, wanted = visit.app, visit.params["run"]
    record = app.store.brief_run(wanted)
    if record.id != wanted:
        raise Moved(visit.link().replace(f"/runs/{wanted}", f"/runs/{record.id}", 1))
    if record.status in _GOING_ON:
        record = _count_so_far(app, record)
    run = describe_run(record)
    status = visit.choose("status", ("", *_ORDER))
    text = visit.get("q")
    pager = visit.read_pager(_count(app, run, status, text))
    results = _read_cases(app, run, pager, status, text)
    layout = visit.choose("view", ("list", "side"))
    metrics = dict(sorted(pick_metrics(record.metrics, record.score_formula).items()))
    return RunView(
        title=f"{run.model} on {run.suite}",
        run=run,
        no_interval=_explain_no_interval(app, record),
        tree=explain_run(record),
        before=_find_before(app, record),
        group=_list_group(app, record),
        metrics=metrics,
        meanings={name: explain_metric(name, metrics) for name in metrics},
        origins=explain_numbers(record),
        judged=any(list_judged(each) for each in results),
        cases=[describe_case(each) for each in results],
        pager=pager,
        status=status,
        text=text,
        layout=layout,
        opened=visit.get("open"),
    )


def explain_run(record: RunRecord, formula: str | None = None) -> FormulaTree | None:
    """The formula with the numbers that are kept of a run; None where they do not fit it."""
    text = formula or record.score_formula
    metrics = pick_metrics(record.metrics, text)
    names = name_values(metrics)
    try:
        parsed = Formula.parse(text, names)
    except FormulaError:
        return None
    if not metrics.keys() >= set(parsed.names):
        return None
    return take_apart(parsed, names, metrics)


def pick_metrics(metrics: Mapping[str, float | None], formula: str) -> dict[str, float | None]:
    """The numbers of a run; of one with very many named cases, those that a formula may mean."""
    if len(metrics) <= _MOST_METRICS:
        return dict(metrics)
    return {
        name: value for name, value in metrics.items() if name in RUN_METRICS or name in formula
    }


def name_values(metrics: Mapping[str, float | None]) -> Names:
    """The names of a run's numbers; those of evals are known to lie between 0 and 1."""
    evals = [
        name
        for name in metrics
        if name not in RUN_METRICS and {f"{name}_latency", f"{name}_cost"} <= metrics.keys()
    ]
    known = Names.of_run(evals)
    return Names(
        [*known.values(), *(Variable(name) for name in metrics if name not in known)], of_run=True
    )


def _count_so_far(app: App, record: RunRecord) -> RunRecord:
    """A run that goes on, with what is known of its cost and its time."""
    cost, latency = app.store.measure_results(record.id)
    return replace(record, metrics=record.metrics | {"total_cost": cost, "avg_latency": latency})


def _count(app: App, run: RunFacts, status: str, text: str) -> int:
    known = {"": run.finished, "passed": run.passed, "failed": run.failed, "error": run.errors}
    if not text:
        return known[status]
    wanted = cast("CaseStatus | None", status or None)
    return app.store.count_results(run.id, status=wanted, text=text or None)


def _read_cases(app: App, run: RunFacts, pager: Pager, status: str, text: str) -> list[CaseResult]:
    """A page of the cases; of all of them, first those that went wrong."""
    store = app.store
    if text or status or run.status in _GOING_ON:
        return store.page_results(
            run.id,
            status=cast("CaseStatus | None", status or None),
            text=text or None,
            limit=pager.limit,
            offset=pager.offset,
        )
    # A run knows how many there are of each, so that nothing needs to be sorted.
    found: list[CaseResult] = []
    skip, room = pager.offset, pager.limit
    for each, count in zip(_ORDER, (run.failed, run.errors, run.passed), strict=True):
        if skip >= count:
            skip -= count
            continue
        part = min(room, count - skip)
        found += store.page_results(run.id, status=each, limit=part, offset=skip)
        skip, room = 0, room - part
        if not room:
            break
    return found


def _find_before(app: App, record: RunRecord) -> RunBefore | None:
    if record.score is None or describe_unrun(record) is not None:
        return None
    earlier = app.store.runs(
        suite=record.suite,
        model=record.model,
        after=(record.created_at, record.created_at, record.id),
        limit=_EARLIER,
    )
    for other in earlier:
        alike = other.tags.get("prompt") == record.tags.get("prompt")
        if other.score is not None and alike and describe_unrun(other) is None:
            change = record.score - (other.score or 0.0)
            return RunBefore(id=other.id, change=change, tone=judge_change(change, record.score))
    return None


def _list_group(app: App, record: RunRecord) -> list[RunFacts]:
    if record.group is None:
        return []
    found = app.store.runs(group=record.group, limit=20)
    return [describe_run(each) for each in found if each.id != record.id]


def _explain_no_interval(app: App, record: RunRecord) -> str | None:
    if record.score is None or record.score_low is not None:
        return None
    if record.passed + record.failed > _FEW:
        return "none is kept for this formula"
    return app.load_run(record.id).no_interval


def _make_report(visit: Visit) -> File:
    """The run as one file that opens without a server."""
    visit.visitor.require_runs()
    record = visit.app.store.brief_run(visit.params["run"])
    refuse_large([record])
    loaded = visit.app.load_run(record.id)
    return File(f"{record.suite} {record.id}", html_report([loaded]))


def refuse_large(records: Sequence[RunRecord]) -> None:
    """What takes too long while somebody waits."""
    large = [each.id for each in records if each.passed + each.failed > MOST_RESULTS]
    if large:
        message = f"the run {large[0]} has too many results to make a file while a page waits"
        hint = f"make it in a terminal: tally show {large[0]} -r report.html"
        raise NeedsJob(message, hint=hint)


PAGE = Page(
    "/runs/{run}",
    "run.html",
    gather,
    parts={"live": "run_live.html", "cases": "run_cases.html", "whole": "run_whole.html"},
    files={"html": _make_report},
)
