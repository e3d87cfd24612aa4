"""Page of traces: a filter, a chart over time, and the newest traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from statistics import fmean
from typing import Any

import msgspec

from tallymark.charts.frame import Chart
from tallymark.charts.lines import Line, LinePoint, draw_lines
from tallymark.errors import InvalidInput
from tallymark.service.traces import LeftOutTrace, TraceItem
from tallymark.text import format_money_tick, format_tick, format_value
from tallymark.traces.trace_facts import GROUPS, TraceSum
from tallymark.traces.trace_query import PEOPLE, SCORE, SCORES, parse_query
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest

_ROWS = 50
_SUMMED = 2_000
"""Number of newest traces that are summed up; all of them would take ever longer."""
_MOST_CHOSEN = 200
_LOWEST = 0.5
"""Scores below it are highlighted."""


class TracesView(View, frozen=True, kw_only=True):
    """A page of traces and their measure over time."""

    empty: bool
    filter: str
    wrong: str | None
    """Error in the filter, with its column."""
    measure: str
    measures: list[str]
    by: str
    groups: list[TraceSum]
    traces: list[TraceItem]
    whole: TraceSum | None
    points: list[TraceSum]
    step: float
    next: str | None
    scanned: int | None
    is_cut: bool
    """True if older traces are left out of the sums."""

    @property
    def chart(self) -> Chart:
        """Chart of the measure over time."""
        line = [
            LinePoint(
                float(each.group or 0.0),
                each.mean,
                None if each.low is None or each.high is None else (each.low, each.high),
            )
            for each in self.points
            if each.measured  # people score here and there
        ]
        drawn = [Line("Mean", line)] if line else []
        write = partial(_write_amount, measure=self.measure)
        return draw_lines(self.measure_title, drawn, self._write_moment, write, zero=True)

    @property
    def is_score(self) -> bool:
        """True if the measure is a score of each trace."""
        return self.measure.startswith(SCORES)

    @property
    def measure_title(self) -> str:
        """Title of the chart."""
        return name_measure(self.measure)

    def _write_moment(self, at: float) -> str:
        form = "%d %b" if self.step >= 86_400 else "%d %b %H:%M"
        return f"{datetime.fromtimestamp(at, UTC):{form}}".lstrip("0")

    def find_score(self, trace: TraceItem) -> float | None:
        """Return the mean of the trace's scores of the chosen measure."""
        found = [value for name, value in _list_values(trace) if name == self.measure]
        return fmean(found) if found else None

    def find_lowest(self, trace: TraceItem) -> str:
        """Describe the lowest of the other scores, if it is low."""
        others = [(value, name) for name, value in _list_values(trace) if name != self.measure]
        value, name = min(others, default=(1.0, ""))
        return f"{name_measure(name)} {format_value(value)}" if value < _LOWEST else ""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each trace."""
        return (msgspec.structs.asdict(each) for each in self.traces)


def _write_amount(value: float, measure: str) -> str:
    """Format a value of the chart axis."""
    if measure == "cost":
        return format_money_tick(value)
    return format_tick(float(f"{value:.3g}")) + (" s" if measure == "duration" else "")


class SuiteView(View, frozen=True, kw_only=True):
    """A suite made of traces, to save in a file."""

    suite: str
    cases: int
    unchecked: int
    """Cases without checks, because no expected answer is known."""
    left_out: list[LeftOutTrace]


def name_measure(measure: str) -> str:
    """Return the title of a measure."""
    if measure.startswith(SCORE):
        return measure.removeprefix(SCORE)
    if measure.startswith(PEOPLE):
        return f"{measure.removeprefix(PEOPLE)}, by people"
    return "Error rate" if measure == "error" else measure.capitalize()


def gather(request: PageRequest) -> TracesView:
    """Gather the traces that the query asks for, newest first."""
    request.visitor.require_runs()
    text = request.get("q").strip()
    by = request.choose("by", ("", *GROUPS))
    traces = request.tally.traces
    empty = not traces.list(limit=1).items
    measures = [*traces.choices().measures, "error", "cost", "duration", "tokens"]
    measure = request.choose("measure", tuple(measures))
    plain = TracesView(
        title="Traces",
        empty=empty,
        filter=text,
        wrong=None,
        measure=measure,
        measures=measures,
        by=by,
        groups=[],
        traces=[],
        whole=None,
        points=[],
        step=0.0,
        next=None,
        scanned=None,
        is_cut=False,
    )
    if empty:
        return plain
    try:
        query = parse_query(text, now=request.now)
    except InvalidInput as error:
        return msgspec.structs.replace(plain, wrong=error.problems[0].render())
    page = traces.list(text, _ROWS, request.get("after") or None)
    found = msgspec.structs.replace(plain, traces=page.items, next=page.next, scanned=page.scanned)
    if query.scanned:  # sums are of columns alone
        return found
    sums = traces.sum_newest(text, measure, by or None, _SUMMED)
    return msgspec.structs.replace(
        found,
        whole=sums.whole,
        points=sums.points,
        step=sums.step,
        groups=sums.groups[:_ROWS],
        is_cut=sums.is_cut,
    )


def _list_values(trace: TraceItem) -> Iterable[tuple[str, float]]:
    """List scores by their names in filters."""
    for each in trace.scores:
        if each.value is not None:
            yield f"{PEOPLE if each.author else SCORE}{each.name}", each.value


def make_test(request: PageRequest) -> Outcome:
    """Make a suite of the chosen traces, or of all that match the filter."""
    request.visitor.require_runs()
    chosen = request.form.get_all("trace")
    made = request.tally.traces.make_suite(
        request.form.get("q"), chosen[:_MOST_CHOSEN] or None, limit=_MOST_CHOSEN
    )
    view = SuiteView(
        title="A test from these traces",
        suite=made.suite,
        cases=made.cases,
        unchecked=made.unchecked,
        left_out=made.left_out[:50],
    )
    return Outcome(view=view, template="traced_suite.html")


PAGE = Page("/traces", "traces.html", gather, actions={"make-test": make_test})
