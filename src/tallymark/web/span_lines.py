"""Waterfall and conversation of a trace."""

from __future__ import annotations

from itertools import islice

import msgspec

from tallymark.charts.frame import pct
from tallymark.text import clean_line, format_money, format_seconds
from tallymark.traces import Span, Trace

_KINDS = {"generation": "model", "tool": "tool", "retrieval": "retrieval"}
_LEAST = 0.004
"""Minimal share of the width, so that short spans are visible."""


class SpanLine(msgspec.Struct, frozen=True, kw_only=True):
    """A span with its place in percent of the trace."""

    name: str
    kind: str
    depth: int
    left: str
    width: str
    took: str
    cost: str
    failed: bool


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of a trace in order of their start."""

    lines: list[SpanLine]
    seconds: float


def lay_out_spans(trace: Trace | None, most: int | None = None) -> Waterfall:
    """Lay out the first or all spans; spans without times begin with the trace."""
    if trace is None or not trace.spans:
        return Waterfall(lines=[], seconds=0.0)
    starts = [span.start_ms for span in trace.spans if span.start_ms is not None]
    begin = min(starts, default=0.0)
    ends = [(span.start_ms or begin) + span.duration_ms for span in trace.spans]
    whole = max(max(ends) - begin, trace.duration_ms if not starts else 0.0) or 1.0
    lines = []
    for depth, span in islice(trace.walk(), most):
        start = ((span.start_ms or begin) - begin) / whole
        width = max(span.duration_ms / whole, _LEAST)
        lines.append(
            SpanLine(
                name=clean_line(span.tool_name or span.name or span.span_type, 120),
                kind="failed" if span.failed else _KINDS.get(span.span_type, "plain"),
                depth=depth,
                left=pct(min(max(start, 0.0), 1 - _LEAST)),
                width=pct(min(width, 1.0)),
                took=format_seconds(span.duration_ms / 1000) if span.duration_ms else "",
                cost="" if span.cost is None else format_money(span.cost),
                failed=span.failed,
            )
        )
    return Waterfall(lines=lines, seconds=whole / 1000)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn: a message or a call."""

    who: str
    text: str
    name: str = ""
    given: str = ""
    seconds: float | None = None
    failed: bool = False


def list_turns(asked: str, answered: str, trace: Trace | None, most: int = 60) -> list[Turn]:
    """List the conversation: the question, the calls and the answer."""
    turns = [Turn(who="Asked", text=asked)] if asked else []
    spans = () if trace is None else (span for _, span in trace.walk())
    told = (
        span
        for span in spans
        if span.span_type in ("tool", "retrieval")
        or (span.span_type == "generation" and span.output and span.output != answered)
    )
    turns += map(_make_turn, islice(told, most))
    if answered or not trace:
        turns.append(Turn(who="Answered", text=answered))
    return turns


def _make_turn(span: Span) -> Turn:
    given = span.tool_input if span.tool_input is not None else span.input
    gave = span.tool_output if span.tool_output is not None else span.output
    who = {"tool": "Tool", "retrieval": "Found"}.get(span.span_type, "Model")
    return Turn(
        who=who,
        text=(span.error or gave or "")[:4_000],
        name="" if who == "Model" else clean_line(span.tool_name or span.name, 120),
        given="" if who == "Model" else (given or "")[:2_000],
        seconds=span.duration_ms / 1000 if span.duration_ms else None,
        failed=span.failed,
    )
