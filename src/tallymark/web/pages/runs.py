"""Page of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlencode

import msgspec

from tallymark.charts.frame import list_ends
from tallymark.runs.problems import name_model
from tallymark.runs.record import RunRecord, RunStatus
from tallymark.service.runs import SuiteHistory
from tallymark.web.page import Moved, Page, Pager, View
from tallymark.web.page_request import PageRequest
from tallymark.web.run_facts import list_labels

_SORTS = ("created_at", "score", "suite", "model", "status")
_MOST_SUITES = 12


class RunsView(View, frozen=True, kw_only=True):
    """Runs, and a line for each suite."""

    suites: list[SuiteHistory]
    runs: list[RunRecord]
    pager: Pager
    sort: str
    descending: bool
    spans: dict[str, tuple[float, float]]
    """Ends of the interval axis by suite; suites have different scales."""
    empty: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each run."""
        for run in self.runs:
            row = msgspec.structs.asdict(run)
            labels = ", ".join(f"{key}={value}" for key, value in list_labels(run).items())
            del row["definition"], row["metrics"]
            known = {"cost": run.cost, "latency": run.latency, "seconds": run.seconds}
            yield row | known | {"model": name_model(run), "tags": labels}


def gather(request: PageRequest) -> RunsView:
    """Gather the runs that the query asks for."""
    request.visitor.require_runs()
    sort = request.choose("sort", _SORTS)
    descending = request.choose("order", ("desc", "asc")) == "desc"
    status = request.choose("status", ("", *get_args(RunStatus)))
    filters = {
        "suite": request.get("suite") or None,
        "model": request.get("model") or None,
        "status": status or None,
        "group": request.get("group") or None,
        "text": request.get("q") or None,
    }
    filtered = any(filters.values())
    tally = request.tally.runs
    pager = request.read_pager(tally.count(**filters))
    runs = tally.page(pager.limit, pager.offset, sort, descending, **filters)
    suites = [] if filtered or pager.offset else tally.suites(limit=_MOST_SUITES).items
    return RunsView(
        title="Runs",
        suites=suites,
        runs=[*runs],
        pager=pager,
        sort=sort,
        descending=descending,
        spans=_find_spans(runs),
        empty=not filtered and not pager.total,
    )


def _find_spans(runs: Sequence[RunRecord]) -> dict[str, tuple[float, float]]:
    points: dict[str, list[tuple[float, float, float]]] = {}
    for run in runs:
        if (score := run.score) is not None:
            low, high = (score if end is None else end for end in (run.score_low, run.score_high))
            points.setdefault(run.suite, []).append((score, low, high))
    drawn = {suite: list_ends(each) for suite, each in points.items()}
    return {suite: (min(each), max(each)) for suite, each in drawn.items()}


def redirect_to_suite(request: PageRequest) -> View:
    """Redirect to the list of runs of one suite."""
    raise Moved(f"/runs?{urlencode([('suite', request.params['suite']), *request.query])}")


PAGE = Page("/runs", "runs.html", gather)
SUITE = Page("/suites/{suite:path}", "runs.html", redirect_to_suite)
