"""Formulas as SQL: a checked tree becomes an expression with the meaning of `formula/steps.py`.

NULL is undefined. SQLite and PostgreSQL fail in different ways, so each has its own words for an
operation; what neither can say to the bit is not said: `formula_sql` then gives None, and the
caller evaluates in Python. See docs/decisions/0011-formula-to-sql.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from tallymark.formula.functions import FUNCTIONS
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from sqlite3 import Connection as SqliteConnection

_MOST_NODES = 400
"""SQLite's expressions may be 1,000 levels high, and a chain of operands is one level for each."""
_MOST_STACK = 60
"""SQLite before 3.46 parses with a stack of 100 entries; the statement around needs some too."""
_MOST_TEXT = 50_000
"""`round` is written with its operand three times over: nested ones must not grow without end."""
_MOST_ARGUMENTS = 100
_Numbers = dict[str, float | None]
_COMPARISONS = {"==": "=", "!=": "<>"}


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """The SQL of a name's value: a number, or NULL where it is missing."""

    text: str
    real: bool = False
    """It is a float as it stands, not a whole number or a text."""
    finite: bool = False
    """No infinity and no NaN is ever stored there."""


@dataclass(frozen=True, slots=True)
class SqlFormula:
    """An SQL expression over the columns, and the values of its `:parameters`."""

    text: str
    parameters: dict[str, float]


def formula_sql(
    tree: Node, columns: Mapping[str, SqlColumn], dialect: str, *, prefix: str = "n"
) -> SqlFormula | None:
    """The tree as SQL for `sqlite` or `postgresql`; None where that cannot be done soundly.

    SQLite needs the functions that `add_functions` adds. PostgreSQL raises an error of class 22
    where a result overflows or underflows, wherever in the tree: the answer is then to be had in
    Python. `prefix` begins the names of the parameters.
    """
    try:
        writer = (_Sqlite if dialect == "sqlite" else _Postgres)(columns, prefix)
        return SqlFormula(writer.whole(tree), writer.parameters)
    except _CannotSay:
        return None


def add_functions(connection: SqliteConnection) -> None:
    """Gives a connection the functions that SQLite lacks, or that mean something else there."""
    for name in _IN_PYTHON:
        function = _return_none_for_undefined(FUNCTIONS[name].apply)
        connection.create_function(f"tally_{name}", -1, function, deterministic=True)
    connection.create_function("tally_number", 2, _read_number, deterministic=True)


def _read_number(text: str | None, name: str) -> float | None:
    """The number of a JSON object; SQLite reads decimals less exactly."""
    return None if text is None else msgspec.json.decode(text, type=_Numbers).get(name)


def _return_none_for_undefined(apply: Callable[..., float]) -> Callable[..., float | None]:
    def function(*numbers: float | None) -> float | None:
        if None in numbers:
            return None
        try:
            return apply(*numbers)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None

    return function


class _CannotSay(Exception):
    """There is no sound SQL for it."""


@dataclass(frozen=True, slots=True)
class _Sql:
    text: str
    stack: int = 1
    """Entries that SQLite's parser holds at once while it reads this."""
    finite: bool = False
    """Never an infinity."""


@dataclass
class _Writer(ABC):
    """The frame: how trees become text. Each database says how single operations are written."""

    columns: Mapping[str, SqlColumn]
    prefix: str
    parameters: dict[str, float] = field(default_factory=dict)

    @abstractmethod
    def whole(self, tree: Node) -> str:
        """The expression for a result: NULL or finite, and never a negative zero."""

    @abstractmethod
    def number(self, value: float) -> _Sql: ...

    @abstractmethod
    def name(self, name: str) -> _Sql: ...

    @abstractmethod
    def chain(self, operators: Sequence[str], operands: Sequence[_Sql]) -> _Sql: ...

    @abstractmethod
    def comparison(self, operator: str, left: _Sql, right: _Sql) -> _Sql: ...

    @abstractmethod
    def branch(self, condition: _Sql, yes: _Sql, no: _Sql) -> _Sql: ...

    @abstractmethod
    def rounding(self, value: _Sql, digits: float) -> _Sql: ...

    @abstractmethod
    def call(self, function: str, arguments: list[_Sql]) -> _Sql: ...

    def write(self, node: Node) -> _Sql:
        """The expression for any node."""
        match node:
            case Number(value=value):
                return self.number(value)
            case Name(name=name):
                return self.name(name)
            case Negative(operand=operand):
                part = self.write(operand)
                return _Sql(f"(- {part.text})", part.stack + 2, part.finite)
            case Sum() | Product():
                return self.chain(node.operators, [self.write(part) for part in node.operands])
            case ValueComparison(operator=operator, left=left, right=right):
                sign = _COMPARISONS.get(operator, operator)
                return self.comparison(sign, self.write(left), self.write(right))
            case Call(function="if", arguments=(condition, yes, no)):
                return self.branch(self.write(condition), self.write(yes), self.write(no))
            case Call(function="round", arguments=(value, *digits)):
                return self.rounding(self.write(value), _read_digits(digits))
            case Call(function=function, arguments=arguments):
                return self.call(function, [self.write(part) for part in arguments])


def _read_digits(given: list[Node]) -> float:
    digits = given[0] if given else Number(0.0)
    if not isinstance(digits, Number):  # the parser lets nothing else through
        raise _CannotSay
    return digits.value


# SQLite's `log` is to base 10, its `log2` is not the C library's, `round` is another one, and all
# of them may be left out of a build.
_IN_PYTHON = ("sqrt", "log", "log2", "log10", "exp", "pow", "round", "floor", "ceil")


class _Sqlite(_Writer):
    """NaN and x / 0 are NULL by themselves; infinity is not, and is caught where it could vanish.

    Numbers are parameters: SQLite's own reading of decimals is not always to the last bit.
    """

    def whole(self, tree: Node) -> str:
        if sum(1 for _ in walk(tree)) > _MOST_NODES:
            raise _CannotSay
        result = self.guard(self.write(tree))
        if result.stack > _MOST_STACK:
            raise _CannotSay
        return f"({result.text} + 0.0)"  # makes -0.0 a 0.0, and changes nothing else

    def number(self, value: float) -> _Sql:
        key = f"{self.prefix}{len(self.parameters)}"
        self.parameters[key] = value
        return _Sql(f":{key}", finite=True)

    def name(self, name: str) -> _Sql:
        column = self.columns[name]
        text = column.text if column.real else f"CAST({column.text} AS REAL)"
        return _Sql(text, 8, column.finite)

    def guard(self, part: _Sql) -> _Sql:
        """NULL where it is infinite."""
        if part.finite:
            return part
        return _write_call("nullif", [_write_call("nullif", [part, _INFINITE]), _MINUS_INFINITE])

    def chain(self, operators: Sequence[str], operands: Sequence[_Sql]) -> _Sql:
        words, stack = [operands[0].text], operands[0].stack + 1
        for operator, operand in zip(operators, operands[1:], strict=True):
            part = self.guard(operand) if operator == "/" else operand
            words += [operator, part.text]
            stack = max(stack, part.stack + 3)
        return _Sql(f"({' '.join(words)})", stack)

    def comparison(self, operator: str, left: _Sql, right: _Sql) -> _Sql:
        left, right = self.guard(left), self.guard(right)
        text = f"CAST({left.text} {operator} {right.text} AS REAL)"
        return _Sql(text, max(left.stack + 2, right.stack + 4), finite=True)

    def branch(self, condition: _Sql, yes: _Sql, no: _Sql) -> _Sql:
        # NULL meets neither WHEN: an undefined condition has an undefined result.
        test = self.guard(condition)
        text = f"CASE {test.text} <> 0.0 WHEN 1 THEN {yes.text} WHEN 0 THEN {no.text} END"
        stack = max(test.stack + 2, yes.stack + 6, no.stack + 7)
        return _Sql(f"({text})", stack, yes.finite and no.finite)

    def rounding(self, value: _Sql, digits: float) -> _Sql:
        return self.call("round", [value, self.number(digits)])

    def call(self, function: str, arguments: list[_Sql]) -> _Sql:
        swallows = FUNCTIONS[function].swallows
        parts = [self.guard(part) for part in arguments] if swallows else arguments
        finite = swallows or all(part.finite for part in parts)
        if function == "clamp":
            value, low, high = parts
            return _write_call("min", [_write_call("max", [value, low]), high], finite=True)
        if function in ("min", "max") and len(parts) > _MOST_ARGUMENTS:
            raise _CannotSay
        own = f"tally_{function}" if function in _IN_PYTHON else function
        return _write_call(own, parts, finite=finite)


# SQLite has no word for infinity, but reads a number that is too large as one.
_INFINITE, _MINUS_INFINITE = _Sql("9e999"), _Sql("-9e999")


def _write_call(name: str, parts: Sequence[_Sql], *, finite: bool = False) -> _Sql:
    stack = max(part.stack + (5 if index else 3) for index, part in enumerate(parts))
    return _Sql(f"{name}({', '.join(part.text for part in parts)})", stack, finite)


class _Postgres(_Writer):
    """No infinity comes in, and none can arise: an operation that overflows is an error there.

    What a server's C library computes may differ in the last bit from what ours does, so only
    operations that IEEE 754 defines to the bit are written.
    """

    def whole(self, tree: Node) -> str:
        return f"({self.write(tree).text} + {self.number(0.0).text})"

    def number(self, value: float) -> _Sql:
        # Python's shortest form, which PostgreSQL reads back to the same bits.
        return _Sql(f"float8 '{value!r}'")

    def name(self, name: str) -> _Sql:
        column = self.columns[name]
        text = column.text if column.real else f"CAST({column.text} AS double precision)"
        for outside in () if column.finite else ("NaN", "Infinity", "-Infinity"):
            text = f"NULLIF({text}, float8 '{outside}')"
        return _Sql(text)

    def chain(self, operators: Sequence[str], operands: Sequence[_Sql]) -> _Sql:
        words = [operands[0].text]
        for operator, operand in zip(operators, operands[1:], strict=True):
            part = f"NULLIF({operand.text}, float8 '0')" if operator == "/" else operand.text
            words += [operator, part]
        return self.limit_text(f"({' '.join(words)})")

    def comparison(self, operator: str, left: _Sql, right: _Sql) -> _Sql:
        text = f"{left.text} {operator} {right.text}"
        return self.limit_text(f"CAST(CAST({text} AS integer) AS double precision)")

    def branch(self, condition: _Sql, yes: _Sql, no: _Sql) -> _Sql:
        test = f"{condition.text} <> float8 '0'"
        return self.limit_text(
            f"(CASE {test} WHEN true THEN {yes.text} WHEN false THEN {no.text} END)"
        )

    def rounding(self, value: _Sql, digits: float) -> _Sql:
        """The fraction, doubled, is exact, and its whole part says which way to go."""
        scale = self.number(math.pow(10.0, digits)).text
        scaled = f"({value.text} * {scale})"
        whole = f"trunc({scaled}) + trunc(float8 '2' * ({scaled} - trunc({scaled})))"
        return self.limit_text(f"(({whole}) / {scale})")

    def call(self, function: str, arguments: list[_Sql]) -> _Sql:
        if function not in _BY_POSTGRES:
            raise _CannotSay
        return self.limit_text(_BY_POSTGRES[function](*(part.text for part in arguments)))

    def limit_text(self, text: str) -> _Sql:
        if len(text) > _MOST_TEXT:
            raise _CannotSay
        return _Sql(text)


def _smaller(*parts: str) -> str:
    """`LEAST` would overlook a NULL; this is what PostgreSQL's own `min` is made of."""
    return reduce(lambda first, second: f"float8smaller({first}, {second})", parts)


def _larger(*parts: str) -> str:
    return reduce(lambda first, second: f"float8larger({first}, {second})", parts)


def _square_root(value: str) -> str:
    """Whatever is below zero becomes the largest number that is, and that becomes NULL."""
    below = "float8 '-5e-324'"
    return f"sqrt(NULLIF(float8larger({value}, {below}), {below}))"


_BY_POSTGRES: dict[str, Callable[..., str]] = {
    "min": _smaller,
    "max": _larger,
    "abs": lambda value: f"abs({value})",
    "sqrt": _square_root,
    "clamp": lambda value, low, high: _smaller(_larger(value, low), high),
    "floor": lambda value: f"floor({value})",
    "ceil": lambda value: f"ceil({value})",
}
