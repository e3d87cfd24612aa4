"""Expectations of a test and tool calls of a trace, or the failure when they are missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallymark.errors import NotMeasured
from tallymark.scoring import Score
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext
    from tallymark.traces import Span


def make_missing_score(scorer: str, what: str) -> Score:
    """The score where there is nothing to measure against."""
    return Score.failed(f"{scorer} needs {what}, and none was given")


def read_expected_texts(ctx: EvalContext, scorer: str) -> list[str] | Score:
    """`expected.output` as text, or several where it is a list of texts: any of them is right.

    A number or a truth value is written as in JSON.
    """
    wanted = ctx.expected.output
    if isinstance(wanted, str):
        return [wanted]
    if wanted is None:
        return make_missing_score(scorer, "expected.output")
    if isinstance(wanted, bool | int | float):
        return [json.dumps(wanted)]
    if has_alternatives(wanted):
        return list(wanted)
    return Score.failed(
        f"{scorer} compares texts, and expected.output is {show_value(wanted)}; "
        "for data, use json_match"
    )


def has_alternatives(wanted: object) -> bool:
    """True for a list of texts, each of which is as good as the others."""
    return isinstance(wanted, list) and bool(wanted) and all(isinstance(t, str) for t in wanted)


def read_expected_tools(ctx: EvalContext, scorer: str) -> list[str] | Score:
    """The names of the expected tools, in order."""
    names = ctx.expected.tool_names
    return make_missing_score(scorer, "expected.tool_calls") if names is None else names


def read_tool_calls(ctx: EvalContext) -> list[Span]:
    """The tool calls; refuses a trace with neither these nor a model call, which does not record
    them.
    """
    return ctx.trace.tool_calls or _require_generations(ctx)


def read_called_tools(ctx: EvalContext) -> list[str]:
    """The names of the tools that were called, in order."""
    return ctx.trace.tool_names or _require_generations(ctx)


def _require_generations(ctx: EvalContext) -> list[Any]:
    """No calls, which only a trace with a model call shows."""
    if not ctx.trace.generations:
        raise NotMeasured("tool calls are unknown: the trace has no model call and no tool call")
    return []


def find_unpaired(wanted: list[str], called: list[str]) -> tuple[list[str], list[str]]:
    """The names that only one side has, repeats counted: (missing, unexpected)."""
    unexpected = called.copy()
    absent = []
    for name in wanted:
        if name in unexpected:
            unexpected.remove(name)
        else:
            absent.append(name)
    return absent, unexpected
