"""Ranges and directions of a formula's values, found before anything runs.

Walks the tree from the leaves up and finds for each node the range of its values and the
direction in which each name moves it. Inside `if`, the condition narrows the ranges of what it
compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from tallymark.formula.formula_names import RUN_METRICS, Names
from tallymark.formula.ranges import (
    CHAIN_FACTS,
    FUNCTION_FACTS,
    INF,
    MIRRORED,
    NEGATED,
    NEVER,
    Direction,
    Directions,
    Fact,
    Range,
    compare,
    flip_directions,
    hull,
    join_directions,
    narrow_range,
    negate,
    require_range,
)
from tallymark.formula.row_evaluation import step
from tallymark.formula.tree import (
    Call,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Sum,
    ValueComparison,
    walk,
)


@dataclass(frozen=True, slots=True)
class Hazard:
    """A place where the value may be, or (`always`) must be, undefined."""

    kind: str
    node: Node
    operand: Node
    always: bool


# Conditions inside conditions are looked at again for each branch, three times a level. After
# this many looks the analysis stops narrowing, which only makes its answers less sharp.
_PATIENCE = 1000


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
        fact = self._find_fact(node)
        if fact.range is None:
            return NEVER
        allowed = self.narrowed.get(node)
        span = fact.range if allowed is None else fact.range.within(allowed)
        if span is None or span.low == INF or span.high == -INF:  # overflows for every input
            return NEVER
        return Fact(span, {} if span.is_point else fact.directions)

    def _find_fact(self, node: Node) -> Fact:
        match node:
            case Number(value=value):
                return Fact(Range(value, value))
            case Name(name=name):
                known = self.names[name]
                return Fact(Range(known.low, known.high), {name: Direction.UP})
            case Negative(operand=operand):
                return negate(self.fact(operand))
            case Sum() | Product():
                return self.chain(node)
            case ValueComparison():
                return self.comparison(node)
            case Call(function="if"):
                return self.branch(node)
            case Call(function=function, arguments=arguments):
                if not any(isinstance(each, Name) for each in walk(node)):
                    constant = step(node, {}).value
                    if constant is not None:
                        return Fact(Range(constant, constant))
                facts = [self.fact(argument) for argument in arguments]
                if any(fact.range is None for fact in facts):
                    return NEVER
                return FUNCTION_FACTS[function](self, node, facts)

    def chain(self, node: Sum | Product) -> Fact:
        parts, operators = node.operands, node.operators
        facts = [self.fact(part) for part in parts]
        total = facts[0]
        if isinstance(node, Product):
            self._note_zero_factors(parts, ("*", *operators), facts)
        if len(parts) == 2 and (known := _find_order(operators[0], *parts)) is not None:
            plain = CHAIN_FACTS[operators[0]](*facts) if NEVER not in facts else NEVER
            if operators[0] == "/" and require_range(facts[1]).holds_zero:
                self.warn("divide-by-zero", node, parts[1], always=False)
            if plain.range is None:
                return NEVER
            return Fact(plain.range.within(known) or plain.range, plain.directions)
        for operator, part, fact in zip(operators, parts[1:], facts[1:], strict=True):
            if total.range is None or fact.range is None:
                return NEVER
            if operator == "/" and fact.range.holds_zero:
                self.warn("divide-by-zero", node, part, fact.range.is_point)
            total = CHAIN_FACTS[operator](total, fact)
        return total

    def warn(self, kind: str, node: Node, operand: Node, always: bool) -> None:
        """Record a place where there may be no value."""
        self.hazards.append(Hazard(kind, node, operand, always))

    def _note_zero_factors(
        self, parts: tuple[Node, ...], operators: tuple[str, ...], facts: list[Fact]
    ) -> None:
        for operator, part, fact in zip(operators, parts, facts, strict=True):
            if operator == "*" and fact.range == Range(0.0, 0.0):
                self.idle += [(each, "it is multiplied by 0") for each in parts if each is not part]
                return

    def comparison(self, node: ValueComparison) -> Fact:
        left, right = self.fact(node.left), self.fact(node.right)
        if left.range is None or right.range is None:
            return NEVER
        outcome = compare(node.operator, left.range, right.range)
        if outcome is None:
            outcome = _compare_by_order(node)
        if outcome is not None:
            word = "true" if outcome else "false"
            self.idle.append((node, f"it is always {word}"))
            return Fact(Range(float(outcome), float(outcome)))
        directions = join_directions(left.directions, flip_directions(right.directions))
        if node.operator in ("<", "<="):
            directions = flip_directions(directions)
        elif node.operator in ("==", "!="):
            directions = _list_equal_directions(node.operator, left, right)
        return Fact(Range(0.0, 1.0), directions)

    def branch(self, node: Call) -> Fact:
        condition, yes, no = node.arguments
        test = self.fact(condition)
        if test.range is None:
            return NEVER
        if not test.range.holds_zero:
            self.idle.append((no, "its condition is always true"))
            return self.fact(yes)
        if test.range.is_point:
            self.idle.append((yes, "its condition is always false"))
            return self.fact(no)
        either = [
            self._find_branch_fact(condition, True, yes),
            self._find_branch_fact(condition, False, no),
        ]
        defined = [fact.range for fact in either if fact.range is not None]
        if not defined:
            return NEVER
        directions = join_directions(either[0].directions, either[1].directions)
        for name, direction in test.directions.items():
            known = _branch_direction(direction, test.range, either, name)
            directions[name] = known
        return Fact(hull(*defined), directions)

    def _find_branch_fact(self, condition: Node, truth: bool, branch: Node) -> Fact:
        """The facts of a branch, with the ranges narrowed to where it is taken."""
        before = dict(self.narrowed)
        possible = self._assume(condition, truth)
        fact = self.fact(branch) if possible else NEVER
        self.narrowed = before
        return fact

    def _assume(self, condition: Node, truth: bool) -> bool:
        """Narrow ranges by a condition's outcome; False when it cannot have that outcome."""
        match condition:
            case ValueComparison(operator=operator, left=left, right=right):
                operator = operator if truth else NEGATED[operator]
                return self._narrow(left, operator, right) and self._narrow(
                    right, MIRRORED[operator], left
                )
            # A product or `min` says `and`: true only where each part is. `max` says `or`: false
            # only where each part is. For `min` and `max`, if no part can be negative.
            case Product(operators=operators, operands=parts) if truth and "/" not in operators:
                return all(self._assume(part, truth) for part in parts)
            case Call(function="min", arguments=parts) if truth and self._are_never_negative(parts):
                return all(self._assume(part, truth) for part in parts)
            case Call(function="max", arguments=parts) if not truth and self._are_never_negative(
                parts
            ):
                return all(self._assume(part, truth) for part in parts)
            case _:
                return self._narrow(condition, "!=" if truth else "==", Number(0.0))

    def is_never_negative(self, node: Node) -> bool:
        """True if no value of a part of the formula is below zero."""
        span = self._find_range(node)
        return span is not None and span.low >= 0.0

    def _are_never_negative(self, parts: tuple[Node, ...]) -> bool:
        return all(self.is_never_negative(part) for part in parts)

    def _narrow(self, node: Node, operator: str, other: Node) -> bool:
        if self.patience < 0:
            return True
        span, limit = self._find_range(node), self._find_range(other)
        if span is None or limit is None:
            return False
        left = narrow_range(operator, span, limit)
        if left is not None and not isinstance(node, Number):
            self.narrowed[node] = left
        return left is not None

    def _find_range(self, node: Node) -> Range | None:
        """A node's range, without noting hazards a second time."""
        hazards, idle = len(self.hazards), len(self.idle)
        span = self.fact(node).range
        del self.hazards[hazards:], self.idle[idle:]
        return span


_STATISTICS = ("min", "avg", "max", "total")
"""Statistics of costs and latencies, which are never negative: each is at most the next."""


def _compare_statistics(left: Node, right: Node) -> int:
    """-1 where the left is never more than the right, 1 where it is never less, 0 if unknown."""
    if not (isinstance(left, Name) and isinstance(right, Name)):
        return 0
    if not {left.name, right.name} <= RUN_METRICS.keys():
        return 0
    (one, _, first), (two, _, second) = (each.name.partition("_") for each in (left, right))
    if first != second or not {one, two} <= {*_STATISTICS} or one == two:
        return 0
    return -1 if _STATISTICS.index(one) < _STATISTICS.index(two) else 1


def _find_order(operator: str, left: Node, right: Node) -> Range | None:
    """Range of a difference or a quotient of two statistics of one measure, if one is known."""
    order = _compare_statistics(left, right)
    if order == 0 or operator not in ("-", "/"):
        return None
    if operator == "-":
        return Range(-INF, 0.0) if order < 0 else Range(0.0, INF)
    return Range(0.0, 1.0) if order < 0 else Range(1.0, INF)


def _compare_by_order(node: ValueComparison) -> bool | None:
    order = _compare_statistics(node.left, node.right)
    known = {("<=", -1): True, (">", -1): False, (">=", 1): True, ("<", 1): False}
    return known.get((node.operator, order))


def _list_equal_directions(operator: str, left: Fact, right: Fact) -> Directions:
    """Directions of an equality such as `x == 1` where 1 is the largest value of x: true as x
    rises.
    """
    moving, fixed = (left, right) if right.directions == {} else (right, left)
    span, point = moving.range, fixed.range
    directions = dict.fromkeys(join_directions(left.directions, right.directions), Direction.EITHER)
    if span is None or point is None or fixed.directions or not point.is_point:
        return directions
    if point.low == span.high:
        directions = moving.directions
    elif point.low == span.low:
        directions = flip_directions(moving.directions)
    return directions if operator == "==" else flip_directions(directions)


def _branch_direction(
    condition: Direction, test: Range, branches: list[Fact], name: str
) -> Direction:
    """Direction of an `if` along a name that its condition depends on.

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
