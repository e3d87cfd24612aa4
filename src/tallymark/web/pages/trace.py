"""Page of a trace: conversation, spans and scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.callers import REPORTERS
from tallymark.service.traces import TraceDetails, TraceScore
from tallymark.text import format_count
from tallymark.traces.call_price import describe_cost_source
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.span_lines import SpanLine, Turn, lay_out_spans, list_turns

_FIRST = 100
_LOST = {
    "spans_refused": ("span", "refused"),
    "spans_cut": ("span", "shortened"),
    "characters_cut": ("character", "cut"),
    "attributes_cut": ("attribute", "cut"),
    "events_cut": ("event", "cut"),
}


class TraceView(View, frozen=True, kw_only=True):
    """A trace with its spans and scores."""

    trace: TraceDetails
    version: int
    """The version shown."""
    lost: list[str]
    turns: list[Turn]
    spans: list[SpanLine]
    seconds: float
    names: list[str]
    """Names of existing scores, as suggestions."""
    cost_source: str
    may_score: bool

    @property
    def scores(self) -> list[TraceScore]:
        """Current scores."""
        return [each for each in self.trace.scores if each.is_current]

    @property
    def past(self) -> list[TraceScore]:
        """Replaced scores."""
        return [each for each in self.trace.scores if not each.is_current]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each score."""
        return (msgspec.structs.asdict(each) for each in self.scores)


def gather(request: PageRequest) -> TraceView:
    request.visitor.require_runs()
    version = request.read_number("version", 0, 2**31) or None
    # The page fetches the other lines as JSON.
    most = None if request.get("format") else _FIRST
    record, trace = request.tally.traces.read(request.params["trace"], version, whole=most is None)
    fall = lay_out_spans(trace, most)
    choices = request.tally.traces.choices()
    lost = {} if record.lost is None else msgspec.structs.asdict(record.lost)
    return TraceView(
        title=record.name or record.id,
        trace=record,
        version=version or record.version,
        lost=[
            f"{format_count(count, _LOST[name][0])} {_LOST[name][1]}"
            for name, count in lost.items()
            if count
        ],
        turns=list_turns(trace.first_input, trace.answer or record.answered or "", trace),
        spans=fall.lines,
        seconds=fall.seconds,
        names=list(dict.fromkeys([*choices.score, *choices.people]))[:50],
        cost_source=describe_cost_source(trace.cost_source),
        may_score=request.caller.role in REPORTERS,
    )


def add_score(request: PageRequest) -> Outcome:
    """Add or replace the visitor's own score."""
    request.visitor.require_runs()
    form = request.form
    text = form.get("value")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no number", hint="write one from 0 to 1") from None
    request.tally.traces.score(
        request.params["trace"],
        form.require("name", "the score has no name"),
        value,
        label=form.get("label") or None,
        reason=form.get("reason") or None,
        expected=form.get("expected") or None,
    )
    return Outcome(f"{request.path}#scores")


PAGE = Page("/traces/{trace}", "trace.html", gather, actions={"score": add_score})
