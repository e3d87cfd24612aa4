"""Traces: what goes wrong now?"""

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
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.store.traces.trace_scores import TraceScore
from tallymark.store.traces.trace_sums import GROUPS, TraceSum
from tallymark.suites.imports.imported_suite import write_yaml
from tallymark.text import format_money_tick, format_tick, format_value
from tallymark.traces.trace_query import PEOPLE, SCORE, SCORES
from tallymark.web.page import Outcome, Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

_ROWS = 50
_MOST_POINTS = 120
_STEPS = (60.0, 300.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)
"""Of the chart: the smallest of which there are not too many."""
_MOST_CHOSEN = 200
_LOWEST = 0.5
"""Scores below it stand out."""


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A trace in the list."""

    id: str
    name: str
    service: str | None
    version: str | None
    status: str
    state: str
    error: str | None
    started_at: float
    duration: float
    cost: float | None
    tokens: int | None
    spans: int
    asked: str | None
    score: float | None
    """The one that the page is about."""
    lowest: str
    """The lowest of its other scores, in words."""


class TracesView(View, frozen=True, kw_only=True):
    """A page of traces, and how those that fit did over time."""

    empty: bool
    filter: str
    wrong: str | None
    """What is wrong with the filter, with its column."""
    measure: str
    measures: list[str]
    by: str
    groups: list[TraceSum]
    traces: list[TraceLine]
    whole: TraceSum | None
    points: list[TraceSum]
    step: float
    next: str | None
    scanned: int | None

    @property
    def chart(self) -> Chart:
        """What is measured, over time."""
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
        """Whether each trace has one of its own."""
        return self.measure.startswith(SCORES)

    @property
    def measure_title(self) -> str:
        """What the chart shows."""
        return name_measure(self.measure)

    def _write_moment(self, at: float) -> str:
        form = "%d %b" if self.step >= 86_400 else "%d %b %H:%M"
        return f"{datetime.fromtimestamp(at, UTC):{form}}".lstrip("0")

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each trace."""
        return (msgspec.structs.asdict(each) for each in self.traces)


def _write_amount(value: float, measure: str) -> str:
    """Three digits are enough beside a line."""
    if measure == "cost":
        return format_money_tick(value)
    return format_tick(float(f"{value:.3g}")) + (" s" if measure == "duration" else "")


class SuiteView(View, frozen=True, kw_only=True):
    """A suite that was made of traces: to be kept in a file."""

    suite: str
    cases: int
    unchecked: int
    """Cases that check nothing: nobody said what is expected."""
    left_out: list[tuple[str, str]]


def name_measure(measure: str) -> str:
    """A measure for people."""
    if measure.startswith(SCORE):
        return measure.removeprefix(SCORE)
    if measure.startswith(PEOPLE):
        return f"{measure.removeprefix(PEOPLE)}, by people"
    return "Share that failed" if measure == "error" else measure.capitalize()


def gather(visit: Visit) -> TracesView:
    """The traces that the address asks for, newest first."""
    visit.visitor.require_runs()
    text = visit.get("q").strip()
    by = visit.choose("by", ("", *GROUPS))
    traces = visit.services.traces
    empty = not visit.app.store.exists or not traces.page("", limit=1).items
    names = [] if empty else visit.app.store.traces.score_names()
    measures = [*names, "error", "cost", "duration", "tokens"]
    measure = visit.choose("measure", tuple(measures))
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
    )
    if empty:
        return plain
    try:
        query = traces.read_filter(text)
    except InvalidInput as error:
        return msgspec.structs.replace(plain, wrong=error.problems[0].render())
    page = traces.page(text, after=_read_place(visit), limit=_ROWS)
    scores = traces.find_scores(page.items)
    found = msgspec.structs.replace(
        plain,
        traces=[_describe(each, scores[each.key], measure) for each in page.items],
        next=None if page.next is None else "{!r}~{}".format(*page.next),
        scanned=page.scanned,
    )
    if query.scanned:  # what only spans tell cannot be summed
        return found
    points, step = _follow(visit, text, measure)
    return msgspec.structs.replace(
        found,
        whole=traces.sum_all(text, measure),
        points=points,
        step=step,
        groups=traces.sum_by(text, by, measure)[:_ROWS] if by else [],
    )


def _read_place(visit: Visit) -> tuple[float, int] | None:
    text = visit.get("after")
    if not text:
        return None
    started, _, key = text.partition("~")
    try:
        return float(started), int(key)
    except ValueError:
        raise InvalidInput("after= is no place in the list", hint="begin without it") from None


def _follow(visit: Visit, text: str, measure: str) -> tuple[list[TraceSum], float]:
    """Over time in days, or in finer steps where that is few points."""
    traces = visit.services.traces
    days = traces.sum_over_time(text, 86_400.0, measure)
    if not days:
        return [], 86_400.0
    span = float(days[-1].group or 0.0) - float(days[0].group or 0.0) + 86_400.0
    step = next((each for each in _STEPS if span / each <= _MOST_POINTS), _STEPS[-1])
    return traces.sum_over_time(text, step, measure)[-_MOST_POINTS:], step


def _describe(record: TraceRecord, scores: list[TraceScore], measure: str) -> TraceLine:
    known = [(_name_score(each), each.value) for each in scores if each.value is not None]
    mine = [value for name, value in known if name == measure]
    others = sorted((value, name_measure(name)) for name, value in known if name != measure)
    low = others[0] if others and others[0][0] < _LOWEST else None
    return TraceLine(
        id=record.trace_id,
        name=record.name,
        service=record.service,
        version=record.service_version,
        status=record.status,
        state=record.state,
        error=record.error,
        started_at=record.started_at,
        duration=record.duration,
        cost=record.cost,
        tokens=record.tokens,
        spans=record.spans,
        asked=record.asked,
        score=fmean(mine) if mine else None,
        lowest="" if low is None else f"{low[1]} {format_value(low[0])}",
    )


def _name_score(score: TraceScore) -> str:
    """As filters name it."""
    return f"{PEOPLE if score.author else SCORE}{score.name}"


def make_test(visit: Visit) -> Outcome:
    """A suite of the traces that were chosen, or of all that fit the filter."""
    visit.visitor.require_runs()
    chosen = visit.form.get_all("trace")
    made = visit.services.traces.make_suite(
        filter_=visit.form.get("q"),
        traces=chosen[:_MOST_CHOSEN] or None,
        name="from-production",
        limit=_MOST_CHOSEN,
    )
    view = SuiteView(
        title="A test of these",
        suite=write_yaml(made.document),
        cases=len(made.document["evals"]),
        unchecked=made.unchecked,
        left_out=made.left_out[:50],
    )
    return Outcome(view=view, template="traced_suite.html")


PAGE = Page("/traces", "traces.html", gather, actions={"make-test": make_test})
