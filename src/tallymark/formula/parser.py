"""From a formula's text to a checked tree, within limits: the tokens, then the grammar.

The one hard part of the tokens is the hyphen: names may contain it, and it is also the minus sign.
Text that runs on without spaces, such as `a-b-c`, is read as declared names, functions and numbers
with minus signs between them; at each place the longest declared name that leaves a reading for the
rest wins. Where there is no reading at all, the name is unknown. The grammar stands at `_Parser`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from tallymark.errors import FormulaError, Problem
from tallymark.formula.formula_names import Names
from tallymark.formula.functions import COMPARISONS, FUNCTIONS
from tallymark.formula.row_evaluation import find_undefined_constants
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

TokenKind = Literal["number", "name", "function", "unknown", "operator", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    at: Region


_SPACE = re.compile(r"[ \t\r\n]+")
_OPERATOR = re.compile(r"<=|>=|==|!=|[-+*/(),<>]")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RUN = re.compile(r"[A-Za-z0-9_.-]+")

# What people write from habit, and what to write here.
_INSTEAD = {
    "**": "write pow(a, b)",
    "^": "write pow(a, b)",
    "%": "there is no remainder or percent sign; divide by 100 for a percentage",
    "//": "write floor(a / b)",
    "=": "write == to compare",
    "&": "write min(a, b) for 'both'",
    "|": "write max(a, b) for 'either'",
    "!": "write 1 - a for 'not'",
    "?": "write if(condition, then, otherwise)",
    "$": "write the name alone",
    "{": "write the name alone",
    "\u00d7": "write *",
    "\u00f7": "write /",
    "\u2212": "write -",
    "\u2013": "write -",
    "\u2014": "write -",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u2260": "write !=",
}
_SHORT = {
    "success": "success_pct",
    "success_rate": "success_pct",
    "pass_rate": "success_pct",
    "accuracy": "success_pct",
    "cost": "total_cost",
    "price": "total_cost",
    "latency": "avg_latency",
    "duration": "avg_latency",
    "tokens": "total_tokens",
}
"""Metric names that people guess, with the real ones."""
_HABITS = {
    "and": "write min(a, b), or multiply",
    "or": "write max(a, b)",
    "not": "write 1 - a",
    "true": "write 1",
    "false": "write 0",
    "True": "write 1",
    "False": "write 0",
    "else": "write if(condition, then, otherwise)",
    "ln": "write log(a), the natural logarithm",
    "mean": "write (a + b) / 2",
    "sum": "write a + b",
}


# Placing mistakes and looking for the nearest name takes time; more than this is not read.
_MAX_PROBLEMS = 20
_FURTHER_PROBLEMS = Problem("and so on")


def tokenize(source: FormulaText, names: Names) -> tuple[list[Token], list[Problem], bool]:
    """All tokens, an `end` last; what could not be read; and whether any character was refused."""
    text, tokens, problems, refused = source.text, list[Token](), list[Problem](), False
    at, operand_next = 0, True
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        run = _RUN.match(text, at)
        # A hyphen begins a name only where an operand may stand, and if some name begins so.
        if run and (text[at] != "-" or (operand_next and names.leading_hyphen)):
            if run[0] in names.words:  # none is longer, and nothing is left to be read
                tokens.append(Token("name", run[0], Region(at, run.end())))
            else:
                tokens += _read_run(source, at, run.end(), names, problems)
            at = tokens[-1].at.end
        elif (operator := _OPERATOR.match(text, at)) and not text.startswith(("**", "//"), at):
            tokens.append(Token("operator", operator[0], Region(at, operator.end())))
            at = operator.end()
        else:
            at, refused = _refuse(source, at, problems), True
            continue
        operand_next = tokens[-1].kind == "operator" and tokens[-1].text != ")"
    tokens.append(Token("end", "", Region(len(text), len(text))))
    return tokens, problems, refused


def _refuse(source: FormulaText, at: int, problems: list[Problem]) -> int:
    """Report a stretch of one character that means nothing here; return its end."""
    text = source.text
    char = text[at : at + 2] if text.startswith(("**", "//"), at) else text[at]
    end = at + len(char)
    while text.startswith(char, end):
        end += len(char)
    if len(problems) >= _MAX_PROBLEMS:
        problems.append(_FURTHER_PROBLEMS)
        return end
    problems.append(
        Problem(
            f"{_describe(char)} has no meaning in a formula",
            source.place(Region(at, end)),
            _INSTEAD.get(char, "use only numbers, names, functions and + - * / ( ) , < >"),
        )
    )
    return end


def _describe(char: str) -> str:
    if char.isascii() and char.isprintable():
        return f"'{char}'"
    name = unicodedata.name(char, "a control character")
    code = f"U+{ord(char):04X}"
    return f"'{char}' ({code}, {name})" if char.isprintable() else f"{code} ({name})"


def _read_run(
    source: FormulaText, start: int, end: int, names: Names, problems: list[Problem]
) -> list[Token]:
    text = source.text
    reading = _find_best_reading(text, start, end, names)
    if reading is not None:
        return reading
    # A hyphen at the end is a minus sign before the next operand.
    while end > start + 1 and text[end - 1] == "-":
        end -= 1
    problems += (
        _explain_unknown(source, start, end, names)
        if len(problems) < _MAX_PROBLEMS
        else [_FURTHER_PROBLEMS]
    )
    return [Token("unknown", text[start:end], Region(start, end))]


def _find_best_reading(text: str, start: int, end: int, names: Names) -> list[Token] | None:
    """The reading of text[start:end] that takes the longest declared name at each place.

    Works from the right, so that each place is decided once.
    """
    places = [start, *(at + 1 for at in range(start, end) if text[at] == "-")]
    best: dict[int, Token] = {}

    for at in reversed(places):
        if at >= end:
            continue
        for token in _list_operands(text, at, end, names):
            # After a unary minus an operand follows at once, after an operand another minus. A
            # hyphen that ends the run is a minus sign before whatever follows it.
            rest = token.at.end if token.kind == "operator" else token.at.end + 1
            if rest >= end or rest in best:
                best[at] = token
                break
    if start not in best:
        return None
    tokens, at = list[Token](), start
    while at < end:
        token = best[at]
        tokens.append(token)
        at = token.at.end
        if token.kind != "operator" and at < end:
            tokens.append(Token("operator", "-", Region(at, at + 1)))
            at += 1
    return tokens


def _list_operands(text: str, at: int, end: int, names: Names) -> Iterator[Token]:
    """Tokens that may stand at one place of a run, best first; each ends at its end or a hyphen."""
    lengths = names.lengths if text[at] != "-" or names.leading_hyphen else ()
    for length in lengths:
        stop = at + length
        if stop > end or (stop < end and text[stop] != "-"):
            continue
        word = text[at:stop]
        if word in names.words:
            yield Token("name", word, Region(at, stop))
        elif word in FUNCTIONS:
            yield Token("function", word, Region(at, stop))
    # `1e-3` is always a number: no name may be the beginning of one, such as `1e`.
    number = _NUMBER.match(text, at)
    if number and (number.end() >= end or text[number.end()] == "-"):
        yield Token("number", number[0], Region(at, number.end()))
    if text[at] == "-":
        yield Token("operator", "-", Region(at, at + 1))


def _explain_unknown(source: FormulaText, start: int, end: int, names: Names) -> list[Problem]:
    """One problem for the whole word, or one for each part where only parts are unknown."""
    if "-" in (names.nearest(source.text[start:end]) or ""):
        return [_explain_unknown_word(source, Region(start, end), names)]
    parts = _find_unknown_parts(source.text, start, end, names)
    split = len(parts) > 0 and sum(b - a for a, b in parts) < end - start - source.text.count(
        "-", start, end
    )
    if split and all(names.nearest(source.text[a:b]) for a, b in parts):
        return [_explain_unknown_word(source, Region(a, b), names) for a, b in parts]
    return [_explain_unknown_word(source, Region(start, end), names)]


def _find_unknown_parts(text: str, start: int, end: int, names: Names) -> list[tuple[int, int]]:
    parts, at = [], start
    for word in text[start:end].split("-"):
        known = word == "" or word in names or word in FUNCTIONS or _NUMBER.fullmatch(word)
        if not known:
            parts.append((at, at + len(word)))
        at += len(word) + 1
    return parts


def _explain_unknown_word(source: FormulaText, at: Region, names: Names) -> Problem:
    word = source.text[at.start : at.end]
    shown = word if len(word) <= 60 else word[:60] + "..."
    place = source.place(at)
    if "." in word and word[0] in "0123456789.":
        return Problem(f"'{shown}' is not a number", place, "write for example 0.5 or 1e-3")
    if re.fullmatch(r"[0-9][0-9_]*", word):
        return Problem(f"'{shown}' is not a number", place, f"write {word.replace('_', '')}")
    message = f"unknown name '{shown}'"
    glued = re.fullmatch(r"([0-9]+)([A-Za-z_][A-Za-z0-9_-]*)", word)
    if glued and glued[2] in names:
        return Problem(message, place, f"to multiply, write {glued[1]} * {glued[2]}")
    if word in _HABITS:
        return Problem(message, place, _HABITS[word])
    if (meant := _SHORT.get(word.casefold())) in names:
        return Problem(message, place, f"did you mean '{meant}'?")
    if (close := names.nearest(word)) is not None:
        return Problem(message, place, f"did you mean '{close}'?")
    return Problem(message, place, f"known: {_list_names(names)}")


def _list_names(names: Names, most: int = 12) -> str:
    words = list(names)
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return (", ".join(words[:most]) + more) if words else "no names are declared"


@dataclass(frozen=True, slots=True)
class FormulaLimits:
    """Given to `Formula.parse`; a formula beyond any of them is refused."""

    characters: int = 4096
    levels: int = 64
    nodes: int = 1000
    problems: int = 10
    """Largest number of mistakes that one error reports; the rest are counted."""


DEFAULT_LIMITS = FormulaLimits()
_DIGITS = [Number(float(digits)) for digits in range(16)]
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
        ordered = sorted(self.problems, key=_find_position)
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
        elif call.function == "round" and count == 2 and call.arguments[1] not in _DIGITS:
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
        """End the reading. After a character that was refused, the rest is a consequence."""
        if not self.refused and self.source.place(token.at) not in self.misread:
            self.problem(token, message, hint)
        raise _Unreadable


def _describe_count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} arguments"
    if least == most:
        return f"{least} argument" if least == 1 else f"{least} arguments"
    return f"{least} to {most} arguments"


def _find_position(problem: Problem) -> tuple[float, float]:
    place = problem.place
    return (math.inf, 0) if place is None else (place.line or 0, place.column or 0)
