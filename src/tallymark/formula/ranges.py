"""Ranges and directions, and how arithmetic moves them.

A range is a closed interval of floats that holds every defined value. Its ends are computed with
the very operations that evaluation uses; those round monotonically, so the ends need no widening.

A direction says how a value moves when one name rises and all others stay: up (never falls), down
(never rises), or either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

INF = math.inf


class Direction(Enum):
    """How a value moves when a name rises."""

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
        """What both hold; None when that is nothing."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Range(low, high) if low <= high else None


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a node: its range, None when it never has a value, and its directions."""

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
    """How a product moves with one factor, the other having this sign."""
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
    # Across zero a quotient jumps from one infinity to the other, whatever its sign.
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
