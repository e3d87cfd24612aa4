"""Usage of an attempt, and the limits of its challenge that it exceeds.

A number is None if unknown: one model call without token counts makes the sum unknown, because a
partial sum would look cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallymark.scoring.score import show_value
from tallymark.text import format_beside, format_count, format_money

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Constraints
    from tallymark.traces import Span, Trace

MOST = 2**53
"""Counts and costs beyond this are nonsense, and no float holds them exactly."""
_SHOWN_TOOLS = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of an attempt, by its trajectory or its claims."""

    tokens: int | None = None
    calls: int | None = None
    """Model and tool calls together."""
    cost: float | None = None
    """US dollars."""
    tools: tuple[str, ...] = ()
    """The names of the tools called, each once, in order."""


def sum_usage(trace: Trace) -> Usage:
    """Sums over the steps of a trajectory."""
    calls = sum(span.span_type in ("generation", "tool") for span in trace.spans)
    tokens = _sum_spans(trace, lambda span: span.tokens)
    return Usage(
        None if tokens is None else int(tokens),
        calls,
        _sum_spans(trace, lambda span: span.cost),
        tuple(dict.fromkeys(trace.tool_names)),
    )


def list_bounds(constraints: Constraints) -> list[str]:
    """The limits as text."""
    bounds = ((constraints.tokens, "token"), (constraints.calls, "call"))
    found = [format_count(most, noun) for most, noun in bounds if most is not None]
    found += [format_money(constraints.cost)] if constraints.cost is not None else []
    if constraints.tools is not None:
        found.append(
            f"the tools {', '.join(constraints.tools)}" if constraints.tools else "no tool"
        )
    return found


def find_violations(usage: Usage, constraints: Constraints) -> tuple[str, ...]:
    """Every bound that was passed, one sentence each; what is not known passes none."""
    found = [
        f"it used {used:,} {what}, and {allowed:,} are allowed"
        for what, used, allowed in (
            ("tokens", usage.tokens, constraints.tokens),
            ("calls", usage.calls, constraints.calls),
        )
        if used is not None and allowed is not None and used > allowed
    ]
    if usage.cost is not None and constraints.cost is not None and usage.cost > constraints.cost:
        spent = format_beside(format_money, usage.cost, constraints.cost)
        found.append(f"it cost {spent}, and {format_money(constraints.cost)} is allowed")
    if constraints.tools is not None:
        found += _name_forbidden_tools(usage.tools, constraints.tools)
    return tuple(found)


def _name_forbidden_tools(called: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    wrong = [tool for tool in called if tool not in allowed]
    said = [f"the tool {show_value(tool)} is not allowed" for tool in wrong[:_SHOWN_TOOLS]]
    if len(wrong) > _SHOWN_TOOLS:
        said.append(f"{len(wrong) - _SHOWN_TOOLS} more tools are not allowed")
    return said


def _sum_spans(trace: Trace, of: Callable[[Span], float | None]) -> float | None:
    """The sum over all steps; None when a model call is counted neither itself nor above it."""
    values = {index: of(span) for index, span in enumerate(trace.spans)}
    counted = {span.span_id for index, span in enumerate(trace.spans) if values[index] is not None}
    parents = {span.span_id: span.parent_id for span in trace.spans}
    uncounted = [
        span.parent_id
        for index, span in enumerate(trace.spans)
        if span.span_type == "generation" and values[index] is None
    ]
    if not all(_is_counted_above(parent, counted, parents) for parent in uncounted):
        return None
    known = [value for value in values.values() if value is not None]
    if not known or not all(0 <= value <= MOST for value in known):
        return None
    total = sum(known)
    return total if total <= MOST else None


def _is_counted_above(
    span_id: str | None, counted: set[str], parents: dict[str, str | None]
) -> bool:
    """True if a step or one above it was counted; cycles end the search.

    The steps on the way are marked, so that a deep trace is not climbed twice.
    """
    seen: set[str] = set()
    while span_id is not None and span_id not in seen:
        if span_id in counted:
            counted |= seen
            return True
        seen.add(span_id)
        span_id = parents.get(span_id)
    return False
