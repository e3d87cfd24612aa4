"""Ranges and directions, and how arithmetic moves them.

A range is a closed interval of floats that holds every defined value. Its ends are computed with
the very operations that evaluation uses; those round monotonically, so the ends need no widening.

A direction says how a value moves when one name rises and all others stay: up (never falls), down
(never rises), or either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from tallymark.formula.functions import ceil, clamp, floor, round_half_away
from tallymark.formula.tree import Call, Number

if TYPE_CHECKING:
    from tallymark.formula.bounds import Analysis

INF = math.inf


class Direction(Enum):
    """Direction in which a value moves when a name rises."""

    UP = "up"
    DOWN = "down"
    EITHER = "either"

    def __neg__(self) -> Direction:
        return _OPPOSITE[self]


_OPPOSITE = {
    Direction.UP: Direction.DOWN,
    Direction.DOWN: Direction.UP,
    Direction.EITHER: Direction.EITHER,
}
Directions = dict[str, Direction]


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, both included; an infinite end means no bound."""

    low: float
    high: float

    @property
    def sign(self) -> int | None:
        """1 where nothing is negative, -1 where nothing is positive, None where both occur."""
        if self.low >= 0.0:
            return 1
        return -1 if self.high <= 0.0 else None

    @property
    def holds_zero(self) -> bool:
        return self.low <= 0.0 <= self.high

    @property
    def is_point(self) -> bool:
        return self.low == self.high

    def within(self, other: Range) -> Range | None:
        """The intersection; None when it is empty."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high) if low <= high else None


@dataclass(frozen=True, slots=True)
class Fact:
    """Range of a node, None when it never has a value, and its directions."""

    range: Range | None
    directions: Directions = field(default_factory=dict)


NEVER = Fact(None)

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def compare(operator: str, left: Range, right: Range) -> bool | None:
    """The outcome when it is the same for every value, else None."""
    match operator:
        case "<":
            return True if left.high < right.low else False if left.low >= right.high else None
        case "<=":
            return True if left.high <= right.low else False if left.low > right.high else None
        case ">" | ">=":
            return compare(MIRRORED[operator], right, left)
        case "==":
            if left.is_point and right.is_point and left.low == right.low:
                return True
            return False if left.within(right) is None else None
        case _:
            same = compare("==", left, right)
            return None if same is None else not same


def narrow_range(operator: str, span: Range, limit: Range) -> Range | None:
    """The part of a range in which a comparison with something in `limit` can hold."""
    # A strict comparison leaves out the limit itself: what is left begins at the next float.
    low, high = span.low, span.high
    match operator:
        case ">":
            low = max(low, math.nextafter(limit.low, INF))
        case ">=":
            low = max(low, limit.low)
        case "<":
            high = min(high, math.nextafter(limit.high, -INF))
        case "<=":
            high = min(high, limit.high)
        case "==":
            low, high = max(low, limit.low), min(high, limit.high)
        case "!=" if limit.is_point:
            low = math.nextafter(low, INF) if low == limit.low else low
            high = math.nextafter(high, -INF) if high == limit.low else high
    return Range(low, high) if low <= high else None


def join_directions(first: Directions, second: Directions) -> Directions:
    """Two movements at once."""
    joined = dict(first)
    for name, direction in second.items():
        joined[name] = direction if joined.get(name, direction) is direction else Direction.EITHER
    return joined


def flip_directions(directions: Directions) -> Directions:
    return {name: -direction for name, direction in directions.items()}


def scale_directions(directions: Directions, sign: int | None) -> Directions:
    """Directions of a product by one factor, when the other has this sign."""
    if sign is None:
        return dict.fromkeys(directions, Direction.EITHER)
    return directions if sign > 0 else flip_directions(directions)


def hull(*ranges: Range) -> Range:
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def corners(operation: Callable[[float, float], float], first: Range, second: Range) -> Range:
    """The range of an operation whose extremes lie at the ends of its operands' ranges."""
    ends = [operation(a, b) for a in (first.low, first.high) for b in (second.low, second.high)]
    known = [end for end in ends if end == end]  # noqa: PLR0124 (NaN: two infinities, no limit)
    return Range(min(known), max(known))


def require_range(fact: Fact) -> Range:
    """The range of a fact that the caller knows to have one."""
    if fact.range is None:  # pragma: no cover
        raise AssertionError
    return fact.range


def negate(fact: Fact) -> Fact:
    if fact.range is None:
        return NEVER
    return Fact(Range(-fact.range.high, -fact.range.low), flip_directions(fact.directions))


def _plus(first: Fact, second: Fact) -> Fact:
    a, b = require_range(first), require_range(second)
    return Fact(
        Range(a.low + b.low, a.high + b.high), join_directions(first.directions, second.directions)
    )


def _minus(first: Fact, second: Fact) -> Fact:
    return _plus(first, negate(second))


def _multiply(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b  # an infinite end times zero is still zero


def _product(first: Fact, second: Fact) -> Fact:
    a, b = require_range(first), require_range(second)
    directions = join_directions(
        scale_directions(first.directions, b.sign), scale_directions(second.directions, a.sign)
    )
    return Fact(corners(_multiply, a, b), directions)


def _quotient(first: Fact, second: Fact) -> Fact:
    a, b = require_range(first), require_range(second)
    if b.is_point and b.low == 0.0:
        return NEVER
    sides = [Range(max(b.low, 0.0), b.high)] if b.high > 0.0 else []
    sides += [Range(b.low, min(b.high, 0.0))] if b.low < 0.0 else []
    ranges = [corners(_divide_towards(side), a, side) for side in sides]
    against = None if a.sign is None else -a.sign
    # Across zero a quotient jumps from one infinity to the other, for either sign.
    turning = against if b.sign is not None else None
    directions = join_directions(
        scale_directions(first.directions, b.sign), scale_directions(second.directions, turning)
    )
    return Fact(hull(*ranges), directions)


def _divide_towards(side: Range) -> Callable[[float, float], float]:
    """Division by the ends of a range on one side of zero; an end at zero is only approached."""
    sign = 1.0 if side.high > 0.0 else -1.0

    def divide(a: float, b: float) -> float:
        if b == 0.0:
            return 0.0 if a == 0.0 else math.copysign(INF, a * sign)
        return a / b

    return divide


CHAIN_FACTS = {"+": _plus, "-": _minus, "*": _product, "/": _quotient}

_ULPS = 4

# One rule for each function: (analysis, its call, the facts of its arguments) -> its fact.


def _make_rising_rule(apply: Callable[..., float], ulps: int = 0) -> Callable[..., Fact]:
    """A function of one argument that never falls."""

    def rule(_: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = require_range(facts[0])
        extra = [a.value for a in node.arguments[1:] if isinstance(a, Number)]
        ends = Range(_apply_at(apply, span.low, *extra), _apply_at(apply, span.high, *extra))
        return Fact(_widen(ends, ulps), facts[0].directions)

    return rule


def _widen(span: Range, ulps: int) -> Range:
    """A little more at both ends, for functions that are not exact; they are where they give 0."""
    low, high = span.low, span.high
    for _ in range(ulps):
        low = math.nextafter(low, -INF) if low else low
        high = math.nextafter(high, INF) if high else high
    return Range(low, high)


def _apply_at(apply: Callable[..., float], value: float, *extra: float) -> float:
    """The value at an end of a range, infinite ends and overflow included."""
    if math.isinf(value):
        return 0.0 if apply is math.exp and value < 0 else value
    try:
        return apply(value, *extra)
    except OverflowError:
        return math.copysign(INF, value)


def _limit_from_zero(kind: str, rule: Callable[..., Fact]) -> Callable[..., Fact]:
    """A function that is defined from 0 on only (above it, for logarithms)."""

    def limit(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = require_range(facts[0])
        # 0 has a square root but no logarithm: the first number that has one is the next float.
        first = 0.0 if kind == "negative-root" else math.nextafter(0.0, INF)
        if span.low < first:
            always = span.high < first
            analysis.warn(kind, node, node.arguments[0], always)
            if always:
                return NEVER
        inside = Fact(Range(max(span.low, first), span.high), facts[0].directions)
        return rule(analysis, node, [inside])

    return limit


def _absolute_fact(_: Analysis, __: Call, facts: list[Fact]) -> Fact:
    span = require_range(facts[0])
    ends = (abs(span.low), abs(span.high))
    low = 0.0 if span.holds_zero else min(ends)
    return Fact(Range(low, max(ends)), scale_directions(facts[0].directions, span.sign))


def _make_extreme_rule(pick: Callable[..., float]) -> Callable[..., Fact]:
    """`min` and `max`: an argument that another always beats can never matter."""

    def rule(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        ranges = [require_range(fact) for fact in facts]
        directions: Directions = {}
        for index, (argument, fact, span) in enumerate(
            zip(node.arguments, facts, ranges, strict=True)
        ):
            others = ranges[:index] + ranges[index + 1 :]
            if any(_is_always_picked(pick, other, span) for other in others):
                why = f"{node.function} always picks another argument"
                analysis.idle.append((argument, why))
            else:
                directions = join_directions(directions, fact.directions)
        return Fact(Range(pick(r.low for r in ranges), pick(r.high for r in ranges)), directions)

    return rule


def _is_always_picked(pick: Callable[..., float], winner: Range, loser: Range) -> bool:
    if winner == loser:
        return False
    return winner.high <= loser.low if pick is min else winner.low >= loser.high


def _clamp_fact(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    value, low, high = (require_range(fact) for fact in facts)
    lowest = clamp(value.low, low.low, high.low)
    highest = clamp(value.high, low.high, high.high)
    if value.low >= low.high and value.high <= high.low and low.high <= high.low:
        analysis.idle += [(limit, "the value never reaches it") for limit in node.arguments[1:]]
    directions: Directions = {}
    for fact in facts:
        directions = join_directions(directions, fact.directions)
    return Fact(Range(lowest, highest), directions)


def _power_fact(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    base, exponent = require_range(facts[0]), require_range(facts[1])
    if base.low < 0.0 or (base.low == 0.0 and exponent.low < 0.0):
        analysis.warn("power", node, node.arguments[0], False)
    names = join_directions(facts[0].directions, facts[1].directions)
    if base.low < 0.0:
        return Fact(Range(-INF, INF), dict.fromkeys(names, Direction.EITHER))
    ends = corners(_raise_power, base, exponent)
    ends = hull(ends, Range(1.0, 1.0)) if exponent.holds_zero else ends
    ends = _widen(ends, _ULPS)
    grows = 1 if base.low >= 1.0 else -1 if base.high <= 1.0 else None
    directions = join_directions(
        scale_directions(facts[0].directions, exponent.sign),
        scale_directions(facts[1].directions, grows),
    )
    return Fact(ends, directions)


def _raise_power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):  # 0 to a negative power: approached, never reached
        return INF


FUNCTION_FACTS: Mapping[str, Callable[[Analysis, Call, list[Fact]], Fact]] = {
    "min": _make_extreme_rule(min),
    "max": _make_extreme_rule(max),
    "abs": _absolute_fact,
    "sqrt": _limit_from_zero("negative-root", _make_rising_rule(math.sqrt)),
    "log": _limit_from_zero("logarithm", _make_rising_rule(math.log, _ULPS)),
    "log2": _limit_from_zero("logarithm", _make_rising_rule(math.log2, _ULPS)),
    "log10": _limit_from_zero("logarithm", _make_rising_rule(math.log10, _ULPS)),
    "exp": _make_rising_rule(math.exp, _ULPS),
    "pow": _power_fact,
    "clamp": _clamp_fact,
    "round": _make_rising_rule(round_half_away),
    "floor": _make_rising_rule(floor),
    "ceil": _make_rising_rule(ceil),
}
