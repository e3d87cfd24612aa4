"""Page that compares the traces of two filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.traces import TraceComparison
from tallymark.traces.trace_query import SCORES
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.traces import name_measure

_LOWER_IS_BETTER = ("error", "cost", "duration", "tokens")


class MeasuredDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both filters."""

    title: str
    found: TraceComparison
    tone: str
    least: float
    most: float
    """Ends of the axis."""


class TraceComparisonView(View, frozen=True, kw_only=True):
    """All measures of both filters."""

    first: str
    second: str
    wrong: str | None
    measures: list[MeasuredDifference]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each measure."""
        for each in self.measures:
            found = each.found
            yield {
                "measure": found.measure,
                "first": found.first.mean,
                "second": found.second.mean,
                "difference": found.difference,
                "low": found.low,
                "high": found.high,
                "verdict": found.verdict,
            }


def gather(request: PageRequest) -> TraceComparisonView:
    """Gather the comparison; by default the last day with the day before."""
    request.visitor.require_runs()
    first = request.get("first") or "since:48h until:24h"
    second = request.get("second") or "since:24h"
    plain = TraceComparisonView(
        title="Two filters compared", first=first, second=second, wrong=None, measures=[]
    )
    traces = request.tally.traces
    if not traces.list(limit=1).items:
        return plain
    measures = [*traces.choices().measures, *_LOWER_IS_BETTER]
    try:
        found = [_measure(request, first, second, each) for each in measures]
    except InvalidInput as error:
        return msgspec.structs.replace(plain, wrong=error.problems[0].render())
    return msgspec.structs.replace(plain, title=_answer(found), measures=found)


def _measure(request: PageRequest, first: str, second: str, measure: str) -> MeasuredDifference:
    found = request.tally.traces.compare(first, second, measure)
    better = -1 if measure in _LOWER_IS_BETTER else 1
    tone = ""
    if found.low is not None and found.high is not None:
        sign = 1 if found.low > 0 else -1 if found.high < 0 else 0
        tone = {1: "good", -1: "bad", 0: ""}[sign * better]
    reach = max(abs(found.low or 0.0), abs(found.high or 0.0)) or 1.0
    return MeasuredDifference(
        title=name_measure(measure), found=found, tone=tone, least=-reach, most=reach
    )


def _answer(found: list[MeasuredDifference]) -> str:
    """Write the heading: the verdict."""
    worse, better = (
        [_write_within(each) for each in found if each.tone == tone] for tone in ("bad", "good")
    )
    if worse:
        return f"The second is worse in {', '.join(worse[:3])}"
    if better:
        return f"The second is better in {', '.join(better[:3])}"
    return "No significant difference"


def _write_within(measured: MeasuredDifference) -> str:
    """Write a measure within a sentence; names of scores are not changed."""
    title = measured.title
    named = measured.found.measure.startswith(SCORES)
    return title if named else f"{title[:1].lower()}{title[1:]}"


PAGE = Page("/traces/compare", "trace_comparison.html", gather)
