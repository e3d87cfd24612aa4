"""Many rows, fast: numpy over blocks that fit in the cache.

Each block is computed first with the processor's error flags watched. A block in which nothing
went wrong is done; one with a division by zero, an overflow or a missing value is computed
again, carefully: there NaN stands for undefined and passes through every operation.

Logarithms and powers are computed number by number, by the functions of a single row: numpy's
own differ from those in the last bit, and a comparison makes a whole score of that bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tallymark.errors import FormulaError
from tallymark.formula.functions import FUNCTIONS
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

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Operand: TypeAlias = "Array | float"

_FLOAT64 = np.dtype(np.float64)
BLOCK = 65_536
"""Rows at a time: few enough to stay in the cache, many enough to hide what a block costs."""


@dataclass(frozen=True, slots=True)
class ColumnResult:
    """The results of `evaluate_many`, NaN where they are undefined."""

    values: Array
    tree: Node
    columns: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def undefined(self) -> NDArray[np.bool_]:
        """True for the rows that have no value."""
        return np.isnan(self.values)

    def reason(self, row: int) -> str | None:
        """Why a row is undefined, in words; None for a row that has a value."""
        values = {name: _read_cell(column, row) for name, column in self.columns.items()}
        return step(self.tree, values).reason


@dataclass(frozen=True, slots=True)
class _Instruction:
    """`function(*operands)`, where the operands are slots and the last one takes the result."""

    function: Callable[..., Any]
    operands: tuple[int, ...]
    guards: tuple[int, ...] = ()
    """The inputs whose infinity could vanish in the result."""


class ColumnProgram:
    """A tree as a list of instructions over slots: constants, columns, scratch arrays, the result.

    It holds constants alone: who runs it brings the rest, so one serves any number of threads.
    """

    def __init__(self, tree: Node) -> None:
        self.columns: dict[str, int] = {}
        self.slots: list[Any] = []
        self.instructions: list[_Instruction] = []
        self.scratch: set[int] = set()
        """The slots that take what is computed on the way."""
        self.spare: list[int] = []
        self.in_use = 0
        for node in walk(tree):
            if isinstance(node, Name) and node.name not in self.columns:
                self.columns[node.name] = self.slot(None)
        self.output = self.slot(None)
        self.tree = tree
        result = self.compile(tree, self.output)
        if result != self.output:
            self.emit(np.positive, (result,), self.output)

    def slot(self, content: Any) -> int:
        self.slots.append(content)
        return len(self.slots) - 1

    def compile(self, node: Node, target: int) -> int:
        """Add the steps of a node; return the slot of its value, `target` unless a leaf."""
        mark = self.in_use
        match node:
            case Number(value=value):
                return self.slot(value)
            case Name(name=name):
                return self.columns[name]
            case Negative(operand=operand):
                self.emit(np.negative, (self.compile(operand, target),), target)
            case Sum() | Product():
                self.chain(node.operands, node.operators, target)
            case ValueComparison(operator=operator, left=left, right=right):
                self.call(operator, (left, right), target)
            case Call(function="min" | "max" as function, arguments=arguments):
                self.chain(arguments, (function,) * (len(arguments) - 1), target)
            case Call(function=function, arguments=arguments):
                self.call(function, arguments, target)
        self.in_use = mark
        return target

    def chain(self, parts: tuple[Node, ...], operators: tuple[str, ...], target: int) -> None:
        total = self.compile(parts[0], target)
        for operator, part in zip(operators, parts[1:], strict=True):
            operand = self.compile(part, self.borrow())
            self.in_use -= 1
            guards = {"/": (operand,), "min": (total, operand), "max": (total, operand)}
            self.emit(UFUNCS[operator], (total, operand), target, guards.get(operator, ()))
            total = target

    def call(self, function: str, arguments: tuple[Node, ...], target: int) -> None:
        inputs = tuple(self.compile(argument, self.borrow()) for argument in arguments)
        if function == "round" and len(inputs) == 1:
            inputs = (*inputs, self.slot(0.0))
        swallows = function not in FUNCTIONS or FUNCTIONS[function].swallows
        self.emit(UFUNCS[function], inputs, target, inputs if swallows else ())

    def emit(
        self,
        function: Callable[..., Any],
        inputs: tuple[int, ...],
        output: int,
        guards: tuple[int, ...] = (),
    ) -> None:
        if output != self.output:
            self.scratch.add(output)
        variable = tuple(slot for slot in guards if not isinstance(self.slots[slot], float))
        self.instructions.append(_Instruction(function, (*inputs, output), variable))

    def borrow(self) -> int:
        """A slot, given back when `in_use` falls again."""
        if self.in_use == len(self.spare):
            self.spare.append(self.slot(None))
        self.in_use += 1
        return self.spare[self.in_use - 1]

    def evaluate(self, columns: Mapping[str, Any]) -> ColumnResult:
        """The formula's value for each row. A column is any array or sequence, or one number."""
        given = {name: _check_column(name, columns.get(name)) for name in self.columns}
        rows = _count_rows(given, columns)
        slots, values = self.make_slots(min(rows, BLOCK)), np.empty(rows)
        # Underflow is no mistake: a result too small for a float is 0, as it is in Python.
        with np.errstate(divide="raise", over="raise", invalid="raise", under="ignore"):
            for start in range(0, rows, BLOCK):
                out = values[start : start + BLOCK]
                inputs = [_cut_block(name, each, start, len(out)) for name, each in given.items()]
                self.load(slots, inputs, out)
                try:
                    self.run(slots)
                except FloatingPointError:
                    self.run_carefully(slots, inputs)
        return ColumnResult(values, self.tree, given)

    def make_slots(self, rows: int) -> list[Any]:
        """Values that are the same for every block of this many rows."""
        slots = self.slots.copy()
        for slot in self.scratch:
            slots[slot] = np.empty(rows, dtype=np.float64)
        return slots

    def load(self, slots: list[Any], inputs: Sequence[Operand], out: Array) -> None:
        """Fill in the inputs of a block."""
        slots[: len(inputs)] = inputs  # names have the first slots, in this order
        slots[self.output] = out
        for slot in self.scratch:
            # The last block: scratch arrays must be as short as it is.
            if len(slots[slot]) != len(out):
                slots[slot] = slots[slot][: len(out)]

    def run(self, slots: list[Any]) -> None:
        """Compute a block; FloatingPointError if any row of it may be undefined."""
        for each in self.instructions:
            for guard in each.guards:
                _expect_finite(slots[guard])
            each.function(*[slots[slot] for slot in each.operands])
        out = slots[self.output]
        low, high = np.minimum.reduce(out), np.maximum.reduce(out)
        if not -math.inf < low <= high < math.inf:
            raise FloatingPointError
        if low <= 0.0 <= high:
            _unsign_zeros(out)

    def run_carefully(self, slots: list[Any], inputs: list[Operand]) -> None:
        """Compute a block in which rows are undefined: NaN wherever a value is not finite."""
        with np.errstate(all="ignore"):
            known = [np.where(np.isfinite(operand), operand, np.nan) for operand in inputs]
            out = slots[self.output]
            self.load(slots, known, out)
            for each in self.instructions:
                # `if` looks only at the branch it takes: what the other has lost does not count.
                lost = [] if each.function is _if else [np.isnan(slots[g]) for g in each.guards]
                result = slots[each.operands[-1]]
                each.function(*[slots[slot] for slot in each.operands])
                for rows in [*lost, ~np.isfinite(result)]:
                    np.copyto(result, np.nan, where=rows)
            _unsign_zeros(out)


def _expect_finite(operand: Operand) -> None:
    """Check with one sum that all values are finite; a sum that overflows costs only a careful
    pass.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        total = operand if isinstance(operand, float) else np.add.reduce(operand)
    if not math.isfinite(total):
        raise FloatingPointError


def _unsign_zeros(out: Array) -> None:
    """Make -0.0 equal 0.0, as in row evaluation."""
    np.add(out, 0.0, out=out)


def _minimum(first: Operand, second: Operand, out: Array) -> None:
    np.minimum(first, second, out=out)


def _maximum(first: Operand, second: Operand, out: Array) -> None:
    np.maximum(first, second, out=out)


def _clamp(value: Operand, low: Operand, high: Operand, out: Array) -> None:
    np.minimum(np.maximum(value, low, out=out), high, out=out)


def _round(value: Operand, digits: float, out: Array) -> None:
    # Halves away from zero, in the steps of `functions.py`, to agree to the bit; np.round does not.
    scale = math.pow(10.0, digits)
    scaled = np.multiply(value, scale)
    np.trunc(scaled, out=out)
    half = np.abs(scaled - out) >= 0.5
    np.add(out, np.copysign(1.0, scaled), out=out, where=half)
    np.divide(out, scale, out=out)


def _if(condition: Operand, yes: Operand, no: Operand, out: Array) -> None:
    np.copyto(out, np.where(np.not_equal(condition, 0.0), yes, no))
    np.copyto(out, np.nan, where=np.isnan(condition))


def _map_rows(name: str) -> Callable[..., None]:
    """A function of `functions.py` for each row: the very same, so that no bit can differ."""
    apply = FUNCTIONS[name].apply

    def function(*slots: Any) -> None:
        *operands, out = slots
        try:
            np.copyto(out, _apply_to_rows(apply, operands, len(out)))
        except (ValueError, OverflowError):  # a row without a value
            if np.geterr()["invalid"] == "raise":
                raise FloatingPointError from None
            np.copyto(out, _apply_to_rows(_give_nan_for_undefined(apply), operands, len(out)))

    return function


def _apply_to_rows(
    apply: Callable[..., float], operands: Sequence[Any], rows: int
) -> Array | float:
    if not any(map(np.ndim, operands)):
        return apply(*map(float, operands))
    # A memoryview gives Python's floats; with numpy's, each call would take several times as long.
    columns = [memoryview(each) if np.ndim(each) else repeat(float(each)) for each in operands]
    return np.fromiter(map(apply, *columns), np.float64, rows)


def _give_nan_for_undefined(apply: Callable[..., float]) -> Callable[..., float]:
    def function(*numbers: float) -> float:
        try:
            return apply(*numbers)
        except (ValueError, OverflowError):
            return math.nan

    return function


UFUNCS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "min": _minimum,
    "max": _maximum,
    "abs": np.absolute,
    "sqrt": np.sqrt,
    "log": _map_rows("log"),
    "log2": _map_rows("log2"),
    "log10": _map_rows("log10"),
    "exp": _map_rows("exp"),
    "pow": _map_rows("pow"),
    "clamp": _clamp,
    "round": _round,
    "floor": np.floor,
    "ceil": np.ceil,
    "if": _if,
}


def _is_column(value: Any) -> bool:
    if type(value) is np.ndarray:
        return value.ndim > 0
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _count_rows(given: Mapping[str, Any], columns: Mapping[str, Any]) -> int:
    """Number of rows; a formula of single numbers takes it from the columns that it does not
    use.
    """
    lengths = {len(each) for each in given.values() if not isinstance(each, float)}
    if not lengths:
        lengths = {len(each) for each in columns.values() if _is_column(each)} or {1}
    if len(lengths) > 1:
        known = given if any(map(_is_column, given.values())) else columns
        counted = ((len(each), name) for name, each in known.items() if _is_column(each))
        (few, short), *_, (many, long) = sorted(counted)
        message = f"column '{short}' has {few:,} rows and column '{long}' has {many:,}"
        raise FormulaError(message, hint="give columns of one length")
    return lengths.pop()


def _check_column(name: str, given: Any) -> Any:
    """A column that `_cut_block` can cut: an array, a sequence, or one number (NaN for None)."""
    if type(given) is np.ndarray and given.ndim == 1:
        return given
    if given is None:
        return math.nan
    # Made an array block by block, so that a long list is never copied whole.
    if isinstance(given, list | tuple):
        return given
    if not _is_column(given):
        return _to_floats(name, given)
    column = np.asanyarray(given)
    if column.ndim > 1:
        raise FormulaError(f"column '{name}' has {column.ndim} dimensions", hint="give one")
    return column


def _cut_block(name: str, column: Any, start: int, rows: int) -> Any:
    """Some rows of a column as floats; NaN where a value is missing."""
    if isinstance(column, float):
        return column
    part = column if len(column) == rows else column[start : start + rows]
    if type(part) is np.ndarray and part.dtype is _FLOAT64:
        return part
    return _to_floats(name, part)


def _to_floats(name: str, given: Any) -> Any:
    try:
        if isinstance(given, np.ma.MaskedArray):
            return np.ma.filled(given.astype(np.float64), np.nan)
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        message = f"column '{name}' holds something that is not a number"
        raise FormulaError(message, hint="use None or NaN for a missing value") from None
    return float(numbers) if numbers.ndim == 0 else numbers


def _read_cell(column: Any, row: int) -> Any:
    value = column[row] if _is_column(column) else column
    return None if value is np.ma.masked or value != value else value  # noqa: PLR0124 (NaN)
