"""The meaning of a formula, one node at a time (docs/decisions/0002-meaning-is-defined-once.md).

It evaluates single rows, defines what `column_evaluation.py` must agree with, and says why a value
is undefined. A value is undefined where a name has no finite value, a division is by zero, a
function has no value there, or a result is too large; everything computed from an undefined value
is undefined, except that `if` looks only at the branch that it takes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, SupportsFloat

from tallymark.errors import Problem
from tallymark.formula.functions import COMPARISONS, FUNCTIONS
from tallymark.formula.tree import (
    Call,
    FormulaText,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Sum,
    ValueComparison,
    children,
    is_constant,
    to_text,
)
from tallymark.text import format_number

NamedValues = Mapping[str, float | None]


class Step(NamedTuple):
    """A node, its value or the reason it has none, and the steps below that were taken."""

    node: Node
    value: float | None
    reason: str | None = None
    below: tuple[Step, ...] = ()


def step(node: Node, values: NamedValues) -> Step:
    """Evaluate a node and all below it."""
    match node:
        case Number(value=value):
            return Step(node, value)
        case Name(name=name):
            given = values.get(name)
            number = as_number(given)
            if number is not None:
                return Step(node, number)
            lacks = "has no value" if given is None else _describe_odd(given)
            return Step(node, None, f"{name} {lacks}")
        case Call(function="if", arguments=arguments):
            return _take_branch(node, arguments, values)
        case _:
            below = tuple(step(child, values) for child in children(node))
            return _combine(node, below)


def as_number(value: object) -> float | None:
    """A finite float from any kind of number, or None."""
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _describe_odd(given: object) -> str:
    if isinstance(given, str | bytes) or not isinstance(given, SupportsFloat):
        return f"is {given!r:.40}, not a number"
    return "is not a number" if given != given else "is too large"  # noqa: PLR0124 (so only NaN)


def _take_branch(node: Node, arguments: tuple[Node, ...], values: NamedValues) -> Step:
    condition = step(arguments[0], values)
    if condition.value is None:
        return Step(node, None, condition.reason, (condition,))
    taken = step(arguments[1] if condition.value != 0.0 else arguments[2], values)
    return Step(node, taken.value, taken.reason, (condition, taken))


def _combine(node: Node, below: tuple[Step, ...]) -> Step:
    numbers = []
    for part in below:
        if part.value is None:
            return Step(node, None, part.reason, below)
        numbers.append(part.value)
    try:
        value = _OPERATIONS[type(node)](node, numbers)
    except ZeroDivisionError:
        return Step(node, None, _describe_zero_divisor(below, node), below)
    except ValueError:
        return Step(node, None, _describe_no_value(node, below), below)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        return Step(node, None, f"{_shorten(node)} is too large", below)
    return Step(node, value, None, below)


_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _chain(node: Node, numbers: list[float]) -> float:
    assert isinstance(node, Sum | Product)  # noqa: S101 (tells the type checker what the table knows)
    total = numbers[0]
    for sign, number in zip(node.operators, numbers[1:], strict=True):
        total = _ARITHMETIC[sign](total, number)
        if not math.isfinite(total):
            raise OverflowError
    return total


def _negative(_: Node, numbers: list[float]) -> float:
    return -numbers[0]


def _comparison(node: Node, numbers: list[float]) -> float:
    assert isinstance(node, ValueComparison)  # noqa: S101
    return 1.0 if COMPARISONS[node.operator](*numbers) else 0.0


def _call(node: Node, numbers: list[float]) -> float:
    assert isinstance(node, Call)  # noqa: S101
    return FUNCTIONS[node.function].apply(*numbers)


_OPERATIONS: dict[type, Callable[[Node, list[float]], float]] = {
    Sum: _chain,
    Product: _chain,
    Negative: _negative,
    ValueComparison: _comparison,
    Call: _call,
}


def _describe_zero_divisor(below: tuple[Step, ...], node: Node) -> str:
    if isinstance(node, Product):
        for sign, part in zip(node.operators, below[1:], strict=True):
            if sign == "/" and part.value == 0.0:
                return f"division by zero: {_shorten(part.node)} is 0"
    return "division by zero"


def _describe_no_value(node: Node, below: tuple[Step, ...]) -> str:
    assert isinstance(node, Call)  # noqa: S101
    given = ", ".join(format_number(part.value) for part in below if part.value is not None)
    needs = FUNCTIONS[node.function].needs
    return f"{_shorten(node)} has no value: {node.function} needs {needs}, not {given}"


def _shorten(node: Node) -> str:
    text = to_text(node)
    return text if len(text) <= 60 else text[:57] + "..."


def find_undefined_constants(tree: Node, source: FormulaText) -> Iterator[Problem]:
    """Problems of parts without names that have no value: no input can ever give them one."""
    below = [
        problem for part in children(tree) for problem in find_undefined_constants(part, source)
    ]
    if below:
        yield from below
    elif isinstance(tree, Product) and (zero := _find_zero_divisor(tree)) is not None:
        message = "division by zero: " + (
            "the divisor" if isinstance(zero, Number) else f"`{_shorten(zero)}`"
        )
        yield Problem(f"{message} is always 0", source.place(zero.at), "divide by something else")
    elif is_constant(tree) and (reason := step(tree, {}).reason) is not None:
        yield Problem(reason, source.place(tree.at), "no values can change this; remove it")


def _find_zero_divisor(node: Product) -> Node | None:
    for sign, part in zip(node.operators, node.operands[1:], strict=True):
        if sign == "/" and is_constant(part) and step(part, {}).value == 0.0:
            return part
    return None
