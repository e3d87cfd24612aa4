"""The tree of a parsed formula, how it is written out again, and where it stands in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeAlias

from tallymark.errors import Place


@dataclass(frozen=True, slots=True)
class Region:
    """Place of a node in the text: from `start` up to, not including, `end`.

    Regions do not take part in comparisons: two trees are equal when they mean the same.
    """

    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Negative:
    operand: Node
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sum:
    """`operands[0] operators[0] operands[1] ...` where the operators are + and -.

    A chain such as `a - b + c` is one node, read from left to right, not a ladder of pairs, so
    that a sum over a thousand evals is one level deep and its terms can be named.
    """

    operands: tuple[Node, ...]
    operators: tuple[str, ...]
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Product:
    """A chain of `*` and `/`, built as `Sum` is."""

    operands: tuple[Node, ...]
    operators: tuple[str, ...]
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """1 where it holds, 0 where it does not."""

    operator: str
    left: Node
    right: Node
    at: Region = field(default=Region(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Node, ...]
    at: Region = field(default=Region(), compare=False, repr=False)


Node: TypeAlias = Number | Name | Negative | Sum | Product | ValueComparison | Call


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case Sum(operands=parts) | Product(operands=parts) | Call(arguments=parts):
            return parts
        case Negative(operand=operand):
            return (operand,)
        case ValueComparison(left=left, right=right):
            return (left, right)
        case _:
            return ()


def rebuild(node: Node, parts: tuple[Node, ...]) -> Node:
    """The same node with other operands."""
    match node:
        case Sum() | Product():
            return replace(node, operands=parts)
        case Call():
            return replace(node, arguments=parts)
        case Negative():
            return replace(node, operand=parts[0])
        case ValueComparison():
            return replace(node, left=parts[0], right=parts[1])
        case _:
            return node


def walk(node: Node) -> Iterator[Node]:
    """Every node, parents before children, from left to right."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def is_constant(node: Node) -> bool:
    """True when no name occurs in it."""
    return not any(isinstance(each, Name) for each in walk(node))


_BINDING = {ValueComparison: 1, Sum: 2, Product: 3, Negative: 4, Call: 5, Name: 5, Number: 5}


def to_text(node: Node, *, guard_minus: bool = False, most: int | None = None) -> str:
    """Text that parses to the same tree, unless it is cut to `most` characters.

    `guard_minus` puts what follows a unary minus in parentheses: needed when a declared name
    starts with a hyphen, because `-a` would then be that name.
    """
    words = list[str]()
    _write(node, words, 0, guard_minus, most)
    text = "".join(words)
    return text if most is None or len(text) <= most else f"{text[: most - 3]}..."


def _write(node: Node, words: list[str], around: int, guard: bool, most: int | None) -> None:
    """Inside something that binds as tightly as `around`; what is cut off is not even written."""
    if most is not None and len(words) > most:
        return
    binding = _BINDING[type(node)]
    # What binds equally needs parentheses too: `a - (b - c)` is a chain inside a chain.
    fenced = binding <= around or (guard and around == _BINDING[Negative])
    if fenced:
        words.append("(")
    if isinstance(node, Number):
        words.append(number_text(node.value))
    elif isinstance(node, Name):
        words.append(node.name)
    elif isinstance(node, Negative):
        words.append("-")
        _write(node.operand, words, binding if guard else _BINDING[Product], guard, most)
    elif isinstance(node, Call):
        words.append(f"{node.function}(")
        for index, argument in enumerate(node.arguments):
            words.append(", " if index else "")
            _write(argument, words, 0, guard, most)
        words.append(")")
    else:
        operators = (node.operator,) if isinstance(node, ValueComparison) else node.operators
        first, *others = children(node)
        _write(first, words, binding, guard, most)
        for operator, part in zip(operators, others, strict=True):
            words.append(f" {operator} ")
            _write(part, words, binding, guard, most)
    if fenced:
        words.append(")")


def number_text(value: float) -> str:
    """The shortest text of a number: `3`, `0.5`, `0.0000001`."""
    shortest = repr(value)
    if -16 < int(shortest.partition("e")[2] or 0) < 0:
        return format(Decimal(shortest), "f")  # its digits as they are, not rounded once more
    return shortest.removesuffix(".0")


@dataclass(frozen=True, slots=True)
class FormulaText:
    """The text of a formula, which knows the line and column of its regions."""

    text: str

    def place(self, at: Region) -> Place:
        """The line and column of a region, with its line of text for a caret."""
        start = self.text.rfind("\n", 0, at.start) + 1
        end = self.text.find("\n", at.start)
        line = self.text[start : end if end >= 0 else len(self.text)]
        number = self.text.count("\n", 0, at.start) + 1
        # A tab or a control character would push the caret away from its place.
        printable = "".join(c if c.isprintable() else "\ufffd" for c in line)
        return Place(None, number, at.start - start + 1, max(1, at.end - at.start), printable)
