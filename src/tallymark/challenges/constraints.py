"""Usage of an attempt, measured or claimed, and the limits of its challenge that it exceeds.

A number is None if unknown: one model call without token counts makes the sum unknown, because a
partial sum would look cheap. Claims in a competitor's metadata prove nothing by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallymark.scoring.score import show_value
from tallymark.text import format_beside, format_count, format_money

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Constraints
    from tallymark.traces import Span, Trace

MOST = 2**53
"""Counts and costs beyond this are nonsense, and no float holds them exactly."""
_SHOWN_TOOLS = 5
_RELEASE = re.compile(r"[-@:_](latest|preview|\d[\d.-]*)")
"""Suffix of a model's name that does not change the model: a date or a revision."""
_PROVIDER = re.compile(r"^[a-z-]+:(?!latest$)(?=[a-z])")
"""`openai:gpt-5` begins with a provider; in `mistral:7b` and `mistral:latest` a tag follows."""


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


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims that can be compared with a trajectory; None where nothing is claimed."""

    tokens: int | None = None
    calls: int | None = None
    cost: float | None = None
    model: str | None = None
    harness: str | None = None


def read_claims(metadata: object) -> tuple[Claims, list[str]]:
    """The claims in a metadata, and a sentence for each that is no claim at all."""
    if not isinstance(metadata, Mapping):
        return Claims(), [f"the metadata must be an object, not {show_value(metadata)}"]
    problems: list[str] = []
    found: dict[str, Any] = {}
    for name, (keys, wanted, read) in _CLAIMS.items():
        key = next((key for key in keys if metadata.get(key) is not None), None)
        if key is None:
            continue
        found[name] = read(metadata[key])
        if found[name] is None:
            problems.append(
                f"the metadata's {key} must be {wanted}, not {show_value(metadata[key])}"
            )
    return Claims(**found), problems


def is_same_model(claimed: str, found: str) -> bool:
    """True if two names mean one model: provider prefix and date may differ."""
    short, long = sorted((_strip_provider(claimed), _strip_provider(found)), key=len)
    return short == long or (
        long.startswith(short) and _RELEASE.fullmatch(long[len(short) :]) is not None
    )


def _strip_provider(model: str) -> str:
    return _PROVIDER.sub("", model.casefold().strip().rpartition("/")[2])


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _read_amount(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None


def _read_count(value: object) -> int | None:
    amount = _read_amount(value)
    return None if amount is None or not amount.is_integer() else int(amount)


_WHOLE = "a whole number of at least 0"
_CLAIMS: dict[str, tuple[tuple[str, ...], str, Callable[[object], Any]]] = {
    "tokens": (("tokens_total", "tokens"), _WHOLE, _read_count),
    "calls": (("calls",), _WHOLE, _read_count),
    "cost": (("cost",), "a number of at least 0", _read_amount),
    "model": (("model",), "text", _read_text),
    "harness": (("harness",), "text", _read_text),
}
"""The keys that each claim may stand under (the first counts), what it must be, its reader."""
