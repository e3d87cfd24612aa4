"""Page of a run: its score, where points were lost, and its cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tallymark.errors import FormulaError, NeedsJob
from tallymark.formula import Formula, Names, Variable
from tallymark.formula.formula_names import RUN_METRICS
from tallymark.runs.agreement import list_judged
from tallymark.runs.problems import name_model
from tallymark.runs.record import CaseResult, RunDetails, RunRecord
from tallymark.runs.reports.html_page import html_report
from tallymark.web.formula_tree import FormulaTree, take_apart
from tallymark.web.page import File, Moved, Page, Pager, View
from tallymark.web.page_request import PageRequest
from tallymark.web.run_facts import (
    NumberOrigins,
    explain_metric,
    explain_numbers,
    explain_result,
    judge_change,
    list_checks,
)

if TYPE_CHECKING:
    from tallymark.runs.record import CaseStatus
    from tallymark.service.runs import Runs

_ORDER: tuple[CaseStatus, ...] = ("failed", "error", "passed")
"""Failures come first."""
MOST_RESULTS = 30_000
"""Most results of a run that is loaded whole within a request."""
_GOING_ON = ("queued", "running", "interrupted")
_MOST_METRICS = 600
"""Most metrics shown; each named case has three."""


class RunBefore(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of the same suite and model, and how the score changed since."""

    id: str
    change: float
    tone: str
    """Tone from `judge_change`."""


class RunView(View, frozen=True, kw_only=True):
    """A run with a page of its cases."""

    run: RunDetails
    tree: FormulaTree | None
    before: RunBefore | None
    group: list[RunRecord]
    """The other runs of the same command."""
    metrics: dict[str, float | None]
    meanings: dict[str, str]
    """Explanation of each metric."""
    origins: NumberOrigins
    judged: bool
    """True if judges scored some of it, so there is something to review."""
    cases: list[CaseResult]
    pager: Pager
    status: str
    text: str
    layout: str
    opened: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each case."""
        for case in self.cases:
            row = msgspec.structs.asdict(case)
            del row["trace"]
            failed = [each.title for each in list_checks(case.checks) if each.outcome != "passed"]
            yield row | {"why": explain_result(case), "checks": ", ".join(failed)}


def gather(request: PageRequest) -> RunView:
    """Gather the run in the URL, by id or a prefix of it."""
    request.visitor.require_runs()
    runs, wanted = request.tally.runs, request.params["run"]
    run = runs.get(wanted)
    if run.id != wanted:
        raise Moved(request.link().replace(f"/runs/{wanted}", f"/runs/{run.id}", 1))
    status = request.choose("status", ("", *_ORDER))
    text = request.get("q")
    pager = request.read_pager(_count(runs, run, status, text))
    results = _read_cases(runs, run, pager, status, text)
    layout = request.choose("view", ("list", "side"))
    metrics = dict(sorted(pick_metrics(run.metrics, run.score_formula).items()))
    return RunView(
        title=f"{name_model(run)} on {run.suite}",
        run=run,
        tree=explain_run(run),
        before=_find_before(runs, run),
        group=[]
        if run.group is None
        else [each for each in runs.list(group=run.group, limit=20).items if each.id != run.id],
        metrics=metrics,
        meanings={name: explain_metric(name, metrics) for name in metrics},
        origins=explain_numbers(run),
        judged=any(list_judged(each) for each in results),
        cases=[*results],
        pager=pager,
        status=status,
        text=text,
        layout=layout,
        opened=request.get("open"),
    )


def explain_run(record: RunRecord, formula: str | None = None) -> FormulaTree | None:
    """Expand the formula with a run's stored metrics; None if they do not fit."""
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
    """Return the metrics of a run; with very many cases, only those a formula may use."""
    if len(metrics) <= _MOST_METRICS:
        return dict(metrics)
    return {
        name: value for name, value in metrics.items() if name in RUN_METRICS or name in formula
    }


def name_values(metrics: Mapping[str, float | None]) -> Names:
    """Return the names of a run's metrics; evals range from 0 to 1."""
    evals = [
        name
        for name in metrics
        if name not in RUN_METRICS and {f"{name}_latency", f"{name}_cost"} <= metrics.keys()
    ]
    known = Names.of_run(evals)
    return Names(
        [*known.values(), *(Variable(name) for name in metrics if name not in known)], of_run=True
    )


def _count(runs: Runs, run: RunRecord, status: str, text: str) -> int:
    known = {"": run.finished, "passed": run.passed, "failed": run.failed, "error": run.errors}
    if not text:
        return known[status]
    return runs.count_cases(run.id, cast("CaseStatus | None", status or None), text)


def _read_cases(
    runs: Runs, run: RunRecord, pager: Pager, status: str, text: str
) -> Sequence[CaseResult]:
    """Read a page of cases, failures first."""
    if text or status or run.status in _GOING_ON:
        wanted = cast("CaseStatus | None", status or None)
        return runs.page_cases(run.id, wanted, text or None, pager.limit, pager.offset)
    # A run knows how many there are of each, so that nothing needs to be sorted.
    found: list[CaseResult] = []
    skip, room = pager.offset, pager.limit
    for each, count in zip(_ORDER, (run.failed, run.errors, run.passed), strict=True):
        if skip >= count:
            skip -= count
            continue
        part = min(room, count - skip)
        found += runs.page_cases(run.id, each, None, part, skip)
        skip, room = 0, room - part
        if not room:
            break
    return found


def _find_before(runs: Runs, run: RunRecord) -> RunBefore | None:
    other = runs.find_previous(run)
    if other is None:
        return None
    change = (run.score or 0.0) - (other.score or 0.0)
    return RunBefore(id=other.id, change=change, tone=judge_change(change, run.score))


def _make_report(request: PageRequest) -> File:
    """Make a self-contained report of the run."""
    request.visitor.require_runs()
    loaded = request.tally.runs.load(request.params["run"])
    refuse_large([loaded.record])
    return File(f"{loaded.record.suite} {loaded.record.id}", html_report([loaded]))


def refuse_large(records: Sequence[RunRecord]) -> None:
    """Refuse runs that take too long within a request."""
    large = [each.id for each in records if each.passed + each.failed > MOST_RESULTS]
    if large:
        message = f"the run {large[0]} has too many results to make a file on a page"
        hint = f"make it in a terminal: tally show {large[0]} -r report.html"
        raise NeedsJob(message, hint=hint)


PAGE = Page(
    "/runs/{run}",
    "run.html",
    gather,
    parts={"live": "run_live.html", "cases": "run_cases.html", "whole": "run_whole.html"},
    files={"html": _make_report},
)
