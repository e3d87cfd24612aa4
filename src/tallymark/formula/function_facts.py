"""For each function, what it makes of the facts of its arguments.

`exp`, `log` and `pow` are not exact, so their ranges are widened by a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tallymark.formula.functions import ceil, clamp, floor, half_away
from tallymark.formula.ranges import (
    INF,
    NEVER,
    Direction,
    Directions,
    Fact,
    Range,
    corners,
    defined,
    hull,
    join,
    times,
)
from tallymark.formula.tree import Call, Number

if TYPE_CHECKING:
    from tallymark.formula.bounds import Analysis

_ULPS = 4

# One rule for each function: (analysis, its call, the facts of its arguments) -> its fact.


def _steady(apply: Callable[..., float], ulps: int = 0) -> Callable[..., Fact]:
    """A function of one argument that never falls."""

    def rule(_: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = defined(facts[0])
        extra = [a.value for a in node.arguments[1:] if isinstance(a, Number)]
        ends = Range(_at(apply, span.low, *extra), _at(apply, span.high, *extra))
        return Fact(_widened(ends, ulps), facts[0].directions)

    return rule


def _widened(span: Range, ulps: int) -> Range:
    """A little more at both ends, for functions that are not exact; they are where they give 0."""
    low, high = span.low, span.high
    for _ in range(ulps):
        low = math.nextafter(low, -INF) if low else low
        high = math.nextafter(high, INF) if high else high
    return Range(low, high)


def _at(apply: Callable[..., float], value: float, *extra: float) -> float:
    """The value at an end of a range, infinite ends and overflow included."""
    if math.isinf(value):
        return 0.0 if apply is math.exp and value < 0 else value
    try:
        return apply(value, *extra)
    except OverflowError:
        return math.copysign(INF, value)


def _from(low: float, kind: str, rule: Callable[..., Fact]) -> Callable[..., Fact]:
    """A function that is defined from `low` on only (above it, for logarithms)."""

    def limited(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = defined(facts[0])
        # 0 has a square root but no logarithm: the first number that has one is the next float.
        first = low if kind == "negative-root" else math.nextafter(low, INF)
        if span.low < first:
            always = span.high < first
            analysis.warn(kind, node, node.arguments[0], always)
            if always:
                return NEVER
        inside = Fact(Range(max(span.low, first), span.high), facts[0].directions)
        return rule(analysis, node, [inside])

    return limited


def _absolute(_: Analysis, __: Call, facts: list[Fact]) -> Fact:
    span = defined(facts[0])
    ends = (abs(span.low), abs(span.high))
    low = 0.0 if span.holds_zero else min(ends)
    return Fact(Range(low, max(ends)), times(facts[0].directions, span.sign))


def _extreme(pick: Callable[..., float]) -> Callable[..., Fact]:
    """`min` and `max`: an argument that another always beats can never matter."""

    def rule(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        ranges = [defined(fact) for fact in facts]
        directions: Directions = {}
        for index, (argument, fact, span) in enumerate(
            zip(node.arguments, facts, ranges, strict=True)
        ):
            others = ranges[:index] + ranges[index + 1 :]
            if any(_always_picked(pick, other, span) for other in others):
                why = f"{node.function} always picks another argument"
                analysis.idle.append((argument, why))
            else:
                directions = join(directions, fact.directions)
        return Fact(Range(pick(r.low for r in ranges), pick(r.high for r in ranges)), directions)

    return rule


def _always_picked(pick: Callable[..., float], winner: Range, loser: Range) -> bool:
    if winner == loser:
        return False
    return winner.high <= loser.low if pick is min else winner.low >= loser.high


def _clamped(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    value, low, high = (defined(fact) for fact in facts)
    lowest = clamp(value.low, low.low, high.low)
    highest = clamp(value.high, low.high, high.high)
    if value.low >= low.high and value.high <= high.low and low.high <= high.low:
        analysis.idle += [(limit, "the value never reaches it") for limit in node.arguments[1:]]
    directions: Directions = {}
    for fact in facts:
        directions = join(directions, fact.directions)
    return Fact(Range(lowest, highest), directions)


def _power(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    base, exponent = defined(facts[0]), defined(facts[1])
    if base.low < 0.0 or (base.low == 0.0 and exponent.low < 0.0):
        analysis.warn("power", node, node.arguments[0], False)
    names = join(facts[0].directions, facts[1].directions)
    if base.low < 0.0:
        return Fact(Range(-INF, INF), dict.fromkeys(names, Direction.EITHER))
    ends = corners(_power_at, base, exponent)
    ends = hull(ends, Range(1.0, 1.0)) if exponent.holds_zero else ends
    ends = _widened(ends, _ULPS)
    grows = 1 if base.low >= 1.0 else -1 if base.high <= 1.0 else None
    directions = join(times(facts[0].directions, exponent.sign), times(facts[1].directions, grows))
    return Fact(ends, directions)


def _power_at(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return INF
    except ValueError:  # 0 to a negative power: approached, never reached
        return INF


FUNCTION_FACTS: Mapping[str, Callable[[Analysis, Call, list[Fact]], Fact]] = {
    "min": _extreme(min),
    "max": _extreme(max),
    "abs": _absolute,
    "sqrt": _from(0.0, "negative-root", _steady(math.sqrt)),
    "log": _from(0.0, "logarithm", _steady(math.log, _ULPS)),
    "log2": _from(0.0, "logarithm", _steady(math.log2, _ULPS)),
    "log10": _from(0.0, "logarithm", _steady(math.log10, _ULPS)),
    "exp": _steady(math.exp, _ULPS),
    "pow": _power,
    "clamp": _clamped,
    "round": _steady(half_away),
    "floor": _steady(floor),
    "ceil": _steady(ceil),
}
