"""What can be known of a formula's values before anything runs: ranges and directions.

A range is a closed interval of floats that holds every defined value. Its ends are computed with
the very operations that evaluation uses; those round monotonically, so the ends need no widening,
except for `exp`, `log` and `pow`, which are widened by a few units in the last place.

A direction says how a value moves when one name rises and all others stay: up (never falls), down
(never rises), or either. Inside `if`, the condition narrows the ranges of what it compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tallymark.formula.functions import ceil, clamp, floor, half_away
from tallymark.formula.names import Names
from tallymark.formula.tree import Call, Comparison, Name, Negative, Node, Number, Product, Sum

INF = math.inf
_ULPS = 4


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
class Hazard:
    """A place where the value may be, or (`always`) must be, undefined."""

    kind: str
    node: Node
    operand: Node
    always: bool


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a node: its range, None when it never has a value, and its directions."""

    range: Range | None
    directions: Directions = field(default_factory=dict)


_NEVER = Fact(None)
# Conditions inside conditions are looked at again for each branch, three times a level. After
# this many looks the analysis stops narrowing, which only makes its answers less sharp.
_PATIENCE = 2000


class Analysis:
    """Facts about every node of a tree, given the ranges of its names."""

    def __init__(self, tree: Node, names: Names) -> None:
        self.names = names
        self.hazards: list[Hazard] = []
        self.idle: list[tuple[Node, str]] = []
        """Parts that can never matter, with the reason."""
        self.narrowed: dict[Node, Range] = {}
        self.patience = _PATIENCE
        self.result = self.fact(tree)

    def fact(self, node: Node) -> Fact:
        self.patience -= 1
        fact = self._of(node)
        if fact.range is None:
            return _NEVER
        allowed = self.narrowed.get(node)
        span = fact.range if allowed is None else fact.range.within(allowed)
        if span is None or span.low == INF or span.high == -INF:  # overflows whatever comes
            return _NEVER
        return Fact(span, {} if span.is_point else fact.directions)

    def _of(self, node: Node) -> Fact:
        match node:
            case Number(value=value):
                return Fact(Range(value, value))
            case Name(name=name):
                known = self.names[name]
                return Fact(Range(known.low, known.high), {name: Direction.UP})
            case Negative(operand=operand):
                return _negative(self.fact(operand))
            case Sum(operands=parts, operators=operators):
                return self.chain(node, parts, operators)
            case Product(operands=parts, operators=operators):
                return self.chain(node, parts, operators)
            case Comparison():
                return self.comparison(node)
            case Call(function="if"):
                return self.branch(node)
            case Call(function=function, arguments=arguments):
                facts = [self.fact(argument) for argument in arguments]
                if any(fact.range is None for fact in facts):
                    return _NEVER
                return FUNCTION_FACTS[function](self, node, facts)

    def chain(self, node: Node, parts: tuple[Node, ...], operators: tuple[str, ...]) -> Fact:
        facts = [self.fact(part) for part in parts]
        total = facts[0]
        if isinstance(node, Product):
            self._note_zero_factors(parts, ("*", *operators), facts)
        for operator, part, fact in zip(operators, parts[1:], facts[1:], strict=True):
            if total.range is None or fact.range is None:
                return _NEVER
            if operator == "/":
                self._note_divisor(node, part, fact.range)
            total = CHAIN_FACTS[operator](total, fact)
        return total

    def _note_divisor(self, node: Node, divisor: Node, span: Range) -> None:
        if span.holds_zero:
            self.hazards.append(Hazard("divide-by-zero", node, divisor, span.is_point))

    def _note_zero_factors(
        self, parts: tuple[Node, ...], operators: tuple[str, ...], facts: list[Fact]
    ) -> None:
        for operator, part, fact in zip(operators, parts, facts, strict=True):
            if operator == "*" and fact.range == Range(0.0, 0.0):
                self.idle += [(each, "it is multiplied by 0") for each in parts if each is not part]
                return

    def comparison(self, node: Comparison) -> Fact:
        left, right = self.fact(node.left), self.fact(node.right)
        if left.range is None or right.range is None:
            return _NEVER
        outcome = _compare(node.operator, left.range, right.range)
        if outcome is not None:
            word = "true" if outcome else "false"
            self.idle.append((node, f"it is always {word}"))
            return Fact(Range(float(outcome), float(outcome)))
        directions = _join(left.directions, _flip(right.directions))
        if node.operator in ("<", "<="):
            directions = _flip(directions)
        elif node.operator in ("==", "!="):
            directions = dict.fromkeys(directions, Direction.EITHER)
        return Fact(Range(0.0, 1.0), directions)

    def branch(self, node: Call) -> Fact:
        condition, yes, no = node.arguments
        test = self.fact(condition)
        if test.range is None:
            return _NEVER
        if not test.range.holds_zero:
            self.idle.append((no, "its condition is always true"))
            return self.fact(yes)
        if test.range.is_point:
            self.idle.append((yes, "its condition is always false"))
            return self.fact(no)
        either = [self._assuming(condition, True, yes), self._assuming(condition, False, no)]
        defined = [fact.range for fact in either if fact.range is not None]
        if not defined:
            return _NEVER
        directions = _join(either[0].directions, either[1].directions)
        for name, direction in test.directions.items():
            known = _branch_direction(direction, test.range, either, name)
            directions[name] = known
        return Fact(_hull(*defined), directions)

    def _assuming(self, condition: Node, truth: bool, branch: Node) -> Fact:
        """The facts of a branch, with the ranges narrowed to where it is taken."""
        before = dict(self.narrowed)
        possible = self._assume(condition, truth)
        fact = self.fact(branch) if possible else _NEVER
        self.narrowed = before
        return fact

    def _assume(self, condition: Node, truth: bool) -> bool:
        """Narrows ranges by a condition's outcome; False when it cannot have that outcome."""
        match condition:
            case Comparison(operator=operator, left=left, right=right):
                operator = operator if truth else _NEGATED[operator]
                return self._narrow(left, operator, right) and self._narrow(
                    right, _MIRRORED[operator], left
                )
            case Product(operators=operators, operands=parts) if truth and "/" not in operators:
                return all(self._assume(part, truth) for part in parts)
            case Call(function="min", arguments=parts) if truth and self._none_negative(parts):
                return all(self._assume(part, truth) for part in parts)
            case Call(function="max", arguments=parts) if not truth and self._none_negative(parts):
                return all(self._assume(part, truth) for part in parts)
            case _:
                return self._narrow(condition, "!=" if truth else "==", Number(0.0))

    def _none_negative(self, parts: tuple[Node, ...]) -> bool:
        ranges = [self._silently(part) for part in parts]
        return all(span is not None and span.low >= 0.0 for span in ranges)

    def _narrow(self, node: Node, operator: str, other: Node) -> bool:
        if self.patience < 0:
            return True
        span, limit = self._silently(node), self._silently(other)
        if span is None or limit is None:
            return False
        left = _where(operator, span, limit)
        if left is not None and not isinstance(node, Number):
            self.narrowed[node] = left
        return left is not None

    def _silently(self, node: Node) -> Range | None:
        """A node's range, without noting hazards a second time."""
        hazards, idle = len(self.hazards), len(self.idle)
        span = self.fact(node).range
        del self.hazards[hazards:], self.idle[idle:]
        return span


_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _compare(operator: str, left: Range, right: Range) -> bool | None:
    """The outcome when it is the same for every value, else None."""
    match operator:
        case "<":
            return True if left.high < right.low else False if left.low >= right.high else None
        case "<=":
            return True if left.high <= right.low else False if left.low > right.high else None
        case ">" | ">=":
            return _compare(_MIRRORED[operator], right, left)
        case "==":
            if left.is_point and right.is_point and left.low == right.low:
                return True
            return False if left.within(right) is None else None
        case _:
            same = _compare("==", left, right)
            return None if same is None else not same


def _where(operator: str, span: Range, limit: Range) -> Range | None:
    """The part of a range in which a comparison with something in `limit` can hold."""
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


def _branch_direction(
    condition: Direction, test: Range, branches: list[Fact], name: str
) -> Direction:
    """Of `if` along a name that its condition depends on.

    Known only where the condition switches once, from one branch to one that lies wholly on
    one side of it, and both branches move that way themselves.
    """
    yes, no = branches
    if condition is Direction.EITHER or test.sign is None or yes.range is None or no.range is None:
        return Direction.EITHER
    # A value of sign 1 that rises switches from 0 to true; one of sign -1 from true to 0.
    turns_true = (condition is Direction.UP) == (test.sign == 1)
    after, before = (yes.range, no.range) if turns_true else (no.range, yes.range)
    for way, ordered in (
        (Direction.UP, after.low >= before.high),
        (Direction.DOWN, after.high <= before.low),
    ):
        own = {yes.directions.get(name, way), no.directions.get(name, way)}
        if ordered and own == {way}:
            return way
    return Direction.EITHER


def _join(first: Directions, second: Directions) -> Directions:
    """Two movements at once."""
    joined = dict(first)
    for name, direction in second.items():
        joined[name] = direction if joined.get(name, direction) is direction else Direction.EITHER
    return joined


def _flip(directions: Directions) -> Directions:
    return {name: -direction for name, direction in directions.items()}


def _times(directions: Directions, sign: int | None) -> Directions:
    """How a product moves with one factor, the other having this sign."""
    if sign is None:
        return dict.fromkeys(directions, Direction.EITHER)
    return directions if sign > 0 else _flip(directions)


def _hull(*ranges: Range) -> Range:
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def _corners(operation: Callable[[float, float], float], first: Range, second: Range) -> Range:
    """The range of an operation whose extremes lie at the ends of its operands' ranges."""
    ends = [operation(a, b) for a in (first.low, first.high) for b in (second.low, second.high)]
    known = [end for end in ends if end == end]  # noqa: PLR0124 - NaN: two infinities, no limit
    return Range(min(known), max(known))


def _defined(fact: Fact) -> Range:
    """The range of a fact that the caller knows to have one."""
    if fact.range is None:  # pragma: no cover
        raise AssertionError
    return fact.range


def _negative(fact: Fact) -> Fact:
    if fact.range is None:
        return _NEVER
    return Fact(Range(-fact.range.high, -fact.range.low), _flip(fact.directions))


def _plus(first: Fact, second: Fact) -> Fact:
    a, b = _defined(first), _defined(second)
    return Fact(Range(a.low + b.low, a.high + b.high), _join(first.directions, second.directions))


def _minus(first: Fact, second: Fact) -> Fact:
    return _plus(first, _negative(second))


def _multiply(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b  # an infinite end times zero is still zero


def _product(first: Fact, second: Fact) -> Fact:
    a, b = _defined(first), _defined(second)
    directions = _join(_times(first.directions, b.sign), _times(second.directions, a.sign))
    return Fact(_corners(_multiply, a, b), directions)


def _quotient(first: Fact, second: Fact) -> Fact:
    a, b = _defined(first), _defined(second)
    if b.is_point and b.low == 0.0:
        return _NEVER
    sides = [Range(max(b.low, 0.0), b.high)] if b.high > 0.0 else []
    sides += [Range(b.low, min(b.high, 0.0))] if b.low < 0.0 else []
    ranges = [_corners(_divide_towards(side), a, side) for side in sides]
    against = None if a.sign is None else -a.sign
    # Across zero a quotient jumps from one infinity to the other, whatever its sign.
    turning = against if b.sign is not None else None
    directions = _join(_times(first.directions, b.sign), _times(second.directions, turning))
    return Fact(_hull(*ranges), directions)


def _divide_towards(side: Range) -> Callable[[float, float], float]:
    """Division by the ends of a range on one side of zero; an end at zero is only approached."""
    sign = 1.0 if side.high > 0.0 else -1.0

    def divide(a: float, b: float) -> float:
        if b == 0.0:
            return 0.0 if a == 0.0 else math.copysign(INF, a * sign)
        return a / b

    return divide


CHAIN_FACTS = {"+": _plus, "-": _minus, "*": _product, "/": _quotient}


# One rule for each function: (analysis, its call, the facts of its arguments) -> its fact.


def _steady(apply: Callable[..., float], ulps: int = 0) -> Callable[..., Fact]:
    """A function of one argument that never falls."""

    def rule(_: Analysis, node: Call, facts: list[Fact]) -> Fact:
        span = _defined(facts[0])
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
        span = _defined(facts[0])
        first = low if kind == "negative-root" else math.nextafter(low, INF)
        if span.low < first:
            always = span.high < first
            analysis.hazards.append(Hazard(kind, node, node.arguments[0], always))
            if always:
                return _NEVER
        inside = Fact(Range(max(span.low, first), span.high), facts[0].directions)
        return rule(analysis, node, [inside])

    return limited


def _absolute(_: Analysis, __: Call, facts: list[Fact]) -> Fact:
    span = _defined(facts[0])
    ends = (abs(span.low), abs(span.high))
    low = 0.0 if span.holds_zero else min(ends)
    return Fact(Range(low, max(ends)), _times(facts[0].directions, span.sign))


def _extreme(pick: Callable[..., float]) -> Callable[..., Fact]:
    """`min` and `max`: an argument that another always beats can never matter."""

    def rule(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
        ranges = [_defined(fact) for fact in facts]
        directions: Directions = {}
        for index, (argument, fact, span) in enumerate(
            zip(node.arguments, facts, ranges, strict=True)
        ):
            others = ranges[:index] + ranges[index + 1 :]
            if any(_always_picked(pick, other, span) for other in others):
                why = f"{node.function} always picks another argument"
                analysis.idle.append((argument, why))
            else:
                directions = _join(directions, fact.directions)
        return Fact(Range(pick(r.low for r in ranges), pick(r.high for r in ranges)), directions)

    return rule


def _always_picked(pick: Callable[..., float], winner: Range, loser: Range) -> bool:
    if winner == loser:
        return False
    return winner.high <= loser.low if pick is min else winner.low >= loser.high


def _clamped(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    value, low, high = (_defined(fact) for fact in facts)
    lowest = clamp(value.low, low.low, high.low)
    highest = clamp(value.high, low.high, high.high)
    if value.low >= low.high and value.high <= high.low and low.high <= high.low:
        analysis.idle += [(limit, "the value never reaches it") for limit in node.arguments[1:]]
    directions: Directions = {}
    for fact in facts:
        directions = _join(directions, fact.directions)
    return Fact(Range(lowest, highest), directions)


def _power(analysis: Analysis, node: Call, facts: list[Fact]) -> Fact:
    base, exponent = _defined(facts[0]), _defined(facts[1])
    if base.low < 0.0 or (base.low == 0.0 and exponent.low < 0.0):
        analysis.hazards.append(Hazard("power", node, node.arguments[0], False))
    names = _join(facts[0].directions, facts[1].directions)
    if base.low < 0.0:
        return Fact(Range(-INF, INF), dict.fromkeys(names, Direction.EITHER))
    ends = _corners(_power_at, base, exponent)
    ends = _hull(ends, Range(1.0, 1.0)) if exponent.holds_zero else ends
    ends = _widened(ends, _ULPS)
    grows = 1 if base.low >= 1.0 else -1 if base.high <= 1.0 else None
    directions = _join(
        _times(facts[0].directions, exponent.sign), _times(facts[1].directions, grows)
    )
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
