"""From text to a checked tree, within limits. The grammar stands at the parser."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NoReturn

from tallymark.errors import FormulaError, Problem
from tallymark.formula.formula_names import Names
from tallymark.formula.functions import COMPARISONS, FUNCTIONS
from tallymark.formula.lexer import Token, tokenize
from tallymark.formula.steps import find_undefined_constants
from tallymark.formula.tree import (
    Call,
    FormulaText,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Region,
    Sum,
    ValueComparison,
    to_text,
)


@dataclass(frozen=True, slots=True)
class FormulaLimits:
    """Given to `Formula.parse`; a formula beyond any of them is refused."""

    characters: int = 4096
    levels: int = 64
    nodes: int = 1000
    problems: int = 10
    """How many mistakes one error reports; the rest are counted."""


DEFAULT_LIMITS = FormulaLimits()
_SIGNS = {Sum: ("+", "-"), Product: ("*", "/")}


class _Unreadable(Exception):
    """The reading cannot go on; the problem is already in the list."""


def parse(text: str, names: Names, limits: FormulaLimits) -> Node:
    """The tree of a formula; FormulaError with every mistake found otherwise."""
    if not isinstance(text, str):
        raise FormulaError(f"a formula is text, not {type(text).__name__}", hint="put it in quotes")
    if len(text) > limits.characters:
        raise FormulaError(
            f"the formula has {len(text):,} characters; {limits.characters:,} are allowed",
            hint="shorten it, or move parts into scorers of their own",
        )
    if not text.strip():
        raise FormulaError("the formula is empty", hint="write for example success_pct")
    parser = _Parser(FormulaText(text), names, limits)
    try:
        tree = parser.expression(1)
        if parser.token.kind != "end":
            parser.refuse_rest()
    except _Unreadable:
        raise FormulaError(parser.list_problems()) from None
    if not parser.problems and any(token.kind == "number" for token in parser.tokens):
        parser.problems += find_undefined_constants(tree, parser.source)
    if parser.problems:
        raise FormulaError(parser.list_problems())
    return tree


class _Parser:
    """Reads the tokens from left to right, by this grammar.

        expression = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
        sum        = product {("+" | "-") product}
        product    = operand {("*" | "/") operand}
        operand    = "-" operand | number | name | function "(" expression {"," expression} ")"
                   | "(" expression ")"

    Unknown names, unknown characters and wrong numbers of arguments are collected and reported
    together; what makes the rest unreadable ends the reading.
    """

    def __init__(self, source: FormulaText, names: Names, limits: FormulaLimits) -> None:
        self.source, self.names, self.limits = source, names, limits
        self.tokens, self.problems, self.refused = tokenize(source, names)
        self.misread = {problem.place for problem in self.problems}
        self.next = 0
        self.token = self.tokens[0]
        """The one that comes next."""
        self.nodes = 0

    def list_problems(self) -> list[Problem]:
        ordered = sorted(self.problems, key=_sort_by_place)
        most = self.limits.problems
        rest = len(ordered) - most
        return [*ordered[:most], *([Problem(f"and {rest} more mistakes")] if rest > 0 else [])]

    # The grammar, one method a line.

    def expression(self, level: int) -> Node:
        left = self.chain(Sum, level)
        if not self.sees(*COMPARISONS):
            return left
        operator = self.take()
        right = self.chain(Sum, level)
        if self.sees(*COMPARISONS):
            self.stop(
                self.token, "comparisons cannot be chained", "write min(a < b, b < c) for a < b < c"
            )
        at = Region(left.at.start, right.at.end)
        return self.count_node(ValueComparison(operator.text, left, right, at))

    def chain(self, kind: type[Sum | Product], level: int) -> Node:
        """The lines `sum` and `product`, which differ in their signs and in what they join."""
        signs = _SIGNS[kind]
        parts = list[Node]()
        operators = list[str]()
        while True:
            parts.append(self.chain(Product, level) if kind is Sum else self.operand(level))
            if not self.sees(*signs):
                break
            operators.append(self.take().text)
        if not operators:
            return parts[0]
        at = Region(parts[0].at.start, parts[-1].at.end)
        return self.count_node(kind(tuple(parts), tuple(operators), at))

    def operand(self, level: int) -> Node:
        token = self.take()
        # Parentheses, calls and minus signs all lead here, so this one test bounds the recursion.
        if level > self.limits.levels:
            allowed = f"{self.limits.levels} levels are allowed"
            self.stop(token, f"the formula is nested too deeply; {allowed}", "take a part out")
        match token.kind:
            case "number":
                return self.number(token)
            case "name" | "unknown":
                if self.sees("("):
                    self.refuse_call(token)
                return self.count_node(Name(token.text, token.at))
            case "function":
                return self.call(token, level)
        if token.text == "-":
            operand = self.operand(level + 1)
            return self.count_node(Negative(operand, Region(token.at.start, operand.at.end)))
        if token.text == "(":
            inner = self.expression(level + 1)
            # Parentheses are no node; what is in them takes their place in the text.
            return replace(inner, at=Region(token.at.start, self.close(token)))
        self.refuse_missing_operand(token)

    def number(self, token: Token) -> Node:
        value = float(token.text)
        if math.isinf(value):
            self.problem(token, f"the number {token.text[:40]} is too large", "stay under 1.8e308")
        return self.count_node(Number(value, token.at))

    def refuse_call(self, token: Token) -> NoReturn:
        if token.kind == "name":
            hint = f"to multiply, write {token.text} * (...)"
            self.stop(token, f"'{token.text}' is a value, not a function", hint)
        # The tokenizer has called it an unknown name already; say what it was meant to be.
        place = self.source.place(token.at)
        self.problems = [problem for problem in self.problems if problem.place != place]
        self.misread.discard(place)
        known = f"known: {', '.join(FUNCTIONS)}"
        close = self.names.nearest(token.text)
        hint = f"did you mean '{close}'?" if close in FUNCTIONS else known
        self.stop(token, f"unknown function '{token.text[:60]}'", hint)

    def call(self, token: Token, level: int) -> Node:
        if not self.sees("("):
            signature = FUNCTIONS[token.text].signature
            self.stop(token, f"'{token.text}' is a function", f"write {signature}")
        opening = self.take()
        arguments = list[Node]()
        if not self.sees(")"):
            arguments.append(self.expression(level + 1))
            while self.sees(","):
                self.take()
                arguments.append(self.expression(level + 1))
        end = self.close(opening)
        call = Call(token.text, tuple(arguments), Region(token.at.start, end))
        self.check_arguments(token, call)
        return self.count_node(call)

    def check_arguments(self, token: Token, call: Call) -> None:
        function, count = FUNCTIONS[call.function], len(call.arguments)
        if count < function.least or (function.most is not None and count > function.most):
            wanted = _describe_count(function.least, function.most)
            message = f"{call.function} takes {wanted}, not {count}"
            self.problem(token, message, f"write {function.signature}")
        elif call.function == "round" and count == 2 and not _is_digits(call.arguments[1]):
            self.problem(
                token, "round takes a whole number of digits from 0 to 15", "write round(a, 2)"
            )
        elif call.function == "clamp":
            match call.arguments:
                case (_, Number(value=low), Number(value=high)) if low > high:
                    hint = f"write clamp(..., {to_text(call.arguments[2])}, "
                    hint += f"{to_text(call.arguments[1])})"
                    self.problem(token, "clamp's low limit is above its high limit", hint)

    # Looking, taking, complaining.

    def sees(self, *texts: str) -> bool:
        return self.token.kind == "operator" and self.token.text in texts

    def take(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.next += 1
            self.token = self.tokens[self.next]
        return token

    def count_node(self, node: Node) -> Node:
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            allowed = f"{self.limits.nodes:,} are allowed"
            self.stop(self.token, f"the formula has too many parts; {allowed}", "shorten it")
        return node

    def close(self, opening: Token) -> int:
        if self.sees(")"):
            return self.take().at.end
        if self.token.kind == "end":
            self.stop(opening, "this '(' is never closed", "add a ')'")
        self.refuse_rest()

    def refuse_missing_operand(self, token: Token) -> NoReturn:
        wanted = "a number, a name or '(' is missing"
        if token.kind == "end":
            self.stop(token, f"the formula ends too early; {wanted} here", "complete or shorten it")
        hint = (
            "remove it" if token.text in ("+", ")") else f"put something before the '{token.text}'"
        )
        self.stop(token, f"{wanted} before '{token.text}'", hint)

    def refuse_rest(self) -> NoReturn:
        token = self.token
        if token.text == ")":
            self.stop(token, "this ')' closes nothing", "remove it, or add a '(' before")
        if token.text == ",":
            self.stop(token, "this ',' is outside a function", "write 0.5, not 0,5")
        self.stop(
            token, f"an operator is missing before '{token.text[:60]}'", "put + - * or / there"
        )

    def problem(self, token: Token, message: str, hint: str) -> None:
        self.problems.append(Problem(message, self.source.place(token.at), hint))

    def stop(self, token: Token, message: str, hint: str) -> NoReturn:
        """Ends the reading. After a character that was refused, the rest is a consequence."""
        if not self.refused and self.source.place(token.at) not in self.misread:
            self.problem(token, message, hint)
        raise _Unreadable


def _is_digits(node: Node) -> bool:
    return isinstance(node, Number) and node.value in range(16)


def _describe_count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} arguments"
    if least == most:
        return f"{least} argument" if least == 1 else f"{least} arguments"
    return f"{least} to {most} arguments"


def _sort_by_place(problem: Problem) -> tuple[float, float]:
    place = problem.place
    return (math.inf, 0) if place is None else (place.line or 0, place.column or 0)
