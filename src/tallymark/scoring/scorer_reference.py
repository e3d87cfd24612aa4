"""How a scorer is named: `name`, `file.py:name` or `module:name`, each with options in brackets.

    keyword_match(keywords=["refund", "sorry"], min_match=2)

Options are literal values: text in quotes, numbers, true, false, null, lists and mappings.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

import msgspec

from tallymark.errors import Place, ScorerError
from tallymark.importing import import_object, parse_alone
from tallymark.scoring.score import show_value

_LITERAL_WORDS = {"true": True, "false": False, "null": None}
_WRAPS = {
    "autoevals": "scorer",
    "deepeval": "metric",
    "inspect": "scorer",
    "pydantic_evals": "evaluator",
}
"""Adapters, and the option of each that names what it wraps."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_READ_ESCAPES = "\\'\"\nnrtxuUN"
"""Others stay as they are typed: in a pattern, `\\b` is the edge of a word and `\\1` a group."""
_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


class ScorerReference(msgspec.Struct, frozen=True):
    """A scorer's name as written, taken apart."""

    name: str
    """The registered name, or the name inside the file or module."""
    home: str | None = None
    """The file or module; None for a registered name."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ScorerReference:
        """Take a reference apart; what cannot be read is a ScorerError with its column."""
        if not isinstance(text, str):
            raise ScorerError(
                f"{show_value(text)} does not name a scorer",
                hint="write a name, file.py:name or module:name, as a text",
            )
        head, bracket, _ = text.partition("(")
        home, colon, name = head.strip().rpartition(":")
        if not name or (colon and not home):
            raise ScorerError(
                f"{text!r} does not name a scorer",
                hint="write a name, file.py:name or module:name",
            )
        options = _parse_options(text, len(head)) if bracket else {}
        return cls(name, home or None, options)

    @property
    def score_name(self) -> str:
        """What formulas call its value; told without loading the scorer."""
        own = self.options.get("name", self.name)
        wraps = _WRAPS.get(self.name) if self.home is None else None
        if wraps is None or {wraps, "name"} <= self.options.keys():
            return str(own)
        return name_wrapped(str(self.options.get(wraps, own)))


def name_wrapped(thing: str) -> str:
    """The name of a scorer that wraps the thing of this name: `pattern_match` for a metric."""
    if "{{" in thing:  # only its template tells it
        return thing
    return snake_case(thing.rpartition("/")[2]).removesuffix("_metric")


def snake_case(name: str) -> str:
    """`ExactMatchMetric` as `exact_match_metric`, `JSONDiff` as `json_diff`."""
    return _BREAKS.sub("_", name).strip("_").lower()


def _parse_options(text: str, at: int) -> dict[str, Any]:
    """The options of `text`, whose bracket opens at index `at`."""
    source = "_" + text[at:]  # a call with a name of one character, whatever the real one is
    shift = at - 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" stays what was typed
            call = parse_alone(lambda: ast.parse(source, mode="eval")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or 1
        said = getattr(error, "msg", None) or str(error) or "they are nested too deeply"
        raise _make_error(f"the options cannot be read: {said}", text, shift + column) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _make_error("something follows the closing bracket", text, at + 1)
    if call.args:
        raise _make_error(
            "an option is written key=value", text, _find_column(call.args[0], source, shift)
        )
    options: dict[str, Any] = {}
    for keyword in call.keywords:
        column = _find_column(keyword, source, shift)
        if keyword.arg is None:
            raise _make_error("an option is written key=value", text, column)
        if keyword.arg in options:
            raise _make_error(f"the option {keyword.arg!r} is given twice", text, column)
        options[keyword.arg] = _parse_literal(keyword.value, text, source, shift)
    return options


def _parse_literal(node: ast.expr, text: str, source: str, shift: int) -> Any:
    class LiteralWords(ast.NodeTransformer):
        def visit_Constant(self, given: ast.Constant) -> ast.expr:
            written = ast.get_source_segment(source, given) or ""
            if not isinstance(given.value, str) or not written.startswith(("'", '"')):
                return given
            kept = _ESCAPE.sub(lambda e: e[0] if e[1] in _READ_ESCAPES else f"\\{e[0]}", written)
            value = parse_alone(lambda: ast.literal_eval(kept)) if kept != written else given.value
            return ast.copy_location(ast.Constant(value), given)

        def visit_Name(self, name: ast.Name) -> ast.expr:
            if name.id in _LITERAL_WORDS:
                return ast.copy_location(ast.Constant(_LITERAL_WORDS[name.id]), name)
            column = _find_column(name, source, shift)
            raise _make_error(f"write text in quotes: {name.id!r}", text, column, len(name.id))

    try:
        return ast.literal_eval(LiteralWords().visit(node))
    except (ValueError, TypeError, RecursionError):
        column = _find_column(node, source, shift)
        raise _make_error("only literal values can be options", text, column) from None


def _find_column(node: ast.expr | ast.keyword, source: str, shift: int) -> int:
    """The column (from 1) in the user's text; ast counts bytes, people count characters."""
    line = source.splitlines()[node.lineno - 1]
    before = sum(map(len, source.splitlines(keepends=True)[: node.lineno - 1]))
    return shift + before + len(line.encode()[: node.col_offset].decode()) + 1


def _make_error(message: str, text: str, column: int, length: int = 1) -> ScorerError:
    return ScorerError(message, place=Place(column=column, length=length, text=text))


def import_scorer(home: str, name: str) -> Any:
    """The object of that name in a file or a module."""
    return import_object(home, name, what="scorer", error=ScorerError)
