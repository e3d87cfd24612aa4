"""One trace: what happened, and what is thought of it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.store.traces.trace_scores import TraceScore
from tallymark.text import format_count
from tallymark.web.page import Outcome, Page
from tallymark.web.span_lines import SpanLine, Turn, lay_out_spans, list_turns
from tallymark.web.view import View
from tallymark.web.visit import Visit

_LOST = {
    "spans_refused": ("span", "refused"),
    "spans_cut": ("span", "shortened"),
    "characters_cut": ("character", "cut"),
    "attributes_cut": ("attribute", "cut"),
    "events_cut": ("event", "cut"),
}


class TraceView(View, frozen=True, kw_only=True):
    """A trace with its spans and scores."""

    trace: TraceRecord
    version: int
    """The one that is shown."""
    lost: list[str]
    scores: list[TraceScore]
    past: list[TraceScore]
    turns: list[Turn]
    spans: list[SpanLine]
    seconds: float
    names: list[str]
    """Of scores that others have given."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each score."""
        return (each.to_dict() for each in self.scores)


def gather(visit: Visit) -> TraceView:
    """The trace that the address names, as it is or as it was."""
    visit.visitor.require_runs()
    version = visit.read_number("version", 0, 2**31) or None
    shown = visit.services.traces.show(visit.params["trace"], version)
    record, trace = shown.record, shown.trace
    fall = lay_out_spans(trace)
    lost = {} if record.lost is None else msgspec.structs.asdict(record.lost)
    return TraceView(
        title=record.name or record.trace_id,
        trace=record,
        version=version or record.version,
        lost=[
            f"{format_count(count, _LOST[name][0])} {_LOST[name][1]}"
            for name, count in lost.items()
            if count
        ],
        scores=[each for each in shown.scores if each.is_current],
        past=[each for each in shown.scores if not each.is_current],
        turns=list_turns(trace.first_input, trace.answer or record.answered or "", trace),
        spans=fall.lines,
        seconds=fall.seconds,
        names=_suggest_names(visit),
    )


def _suggest_names(visit: Visit) -> list[str]:
    """Of scores that there are already, whoever gave them."""
    names = visit.app.store.traces.score_names()
    return list(dict.fromkeys(each.partition(".")[2] for each in names))[:50]


def add_score(visit: Visit) -> Outcome:
    """A person's own score, in place of the one they gave before."""
    visit.visitor.require_runs()
    form = visit.form
    text = form.get("value")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no number", hint="write one from 0 to 1") from None
    visit.services.traces.add_score(
        visit.params["trace"],
        form.require("name", "the score has no name"),
        value,
        author=visit.caller.name,
        label=form.get("label") or None,
        reason=form.get("reason") or None,
        expected=form.get("expected") or None,
    )
    return Outcome(f"{visit.path}#scores")


PAGE = Page("/traces/{trace}", "trace.html", gather, actions={"score": add_score})
