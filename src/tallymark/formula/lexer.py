"""Cutting a formula's text into tokens.

The one hard part is the hyphen: names may contain it, and it is also the minus sign. Text that
runs on without spaces, such as `a-b-c`, is read as declared names, functions and numbers with
minus signs between them; at each place the longest declared name that leaves a reading for the
rest wins. Where there is no reading at all, the name is unknown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tallymark.errors import Problem
from tallymark.formula.formula_names import Names
from tallymark.formula.functions import FUNCTIONS
from tallymark.formula.tree import FormulaText, Region

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
"""What people write for a metric, and what it is called."""
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


# Placing mistakes and looking for the nearest name takes time; nobody reads more than this.
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
    """Reports a stretch of one character that means nothing here; returns where it ends."""
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
    # A hyphen at the end is a minus sign before whatever follows.
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
    """What may stand at one place of a run, best first; each ends at the run's end or a hyphen."""
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
    # `1e-3` is always a number: no name may be the beginning of one, such as `1e` (decision 0003).
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
