"""One row, fast: a tree compiled to a Python function.

The code is generated from our own checked tree; the user's text never reaches the compiler. It
handles floats only and hands any other row to `steps.py`, which defines the meaning. Python
raises on a division by zero and in most functions; overflow and infinite input are found at the
end, because `x - x` is 0 for finite numbers only. That test covers the result and every operand
whose infinity could vanish on the way: divisors, and what goes into `min`, `exp` or a comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from tallymark.formula.functions import FUNCTIONS
from tallymark.formula.steps import NamedValues, as_number, step
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

RowFunction = Callable[[NamedValues], float | None]

_FUNCTION = """\
def row(values):
  try:
{body}
  except (ZeroDivisionError, OverflowError, ValueError):
    return None
  except (KeyError, TypeError, RuntimeWarning):
    pass
  return otherwise(values)
"""


def compile_row(tree: Node) -> RowFunction:
    """A function from the values of one row to the result, None where it is undefined."""
    writer = _RowWriter(tree)

    def otherwise(values: Mapping[str, object]) -> float | None:
        floats = {name: as_number(values.get(name)) for name in writer.variables}
        if None in floats.values():  # perhaps only in a branch that is not taken
            value = step(tree, floats).value
            return None if value is None else value + 0.0  # -0.0 and 0.0 are one
        return row(floats)

    scope: dict[str, object] = {f"f_{name}": row.apply for name, row in FUNCTIONS.items()}
    scope["otherwise"] = otherwise
    text = _FUNCTION.format(body="\n".join(writer.lines))
    exec(compile(text, "<formula>", "exec"), scope)  # noqa: S102 (only our own tokens)
    row: RowFunction = scope["row"]  # type: ignore[assignment]
    return row


class _RowWriter:
    """Writes the lines of one function."""

    def __init__(self, tree: Node) -> None:
        names = dict.fromkeys(node.name for node in walk(tree) if isinstance(node, Name))
        self.variables = {name: f"v{index}" for index, name in enumerate(names)}
        self.tree = tree
        self.lines: list[str] = []
        self.indent = " " * 4
        self.temporaries = 0
        self.guards: list[str] = []
        self.branches = 0
        self.branch_guards: list[str] = []
        self.root_divisors: list[str] = []
        self.function()

    def function(self) -> None:
        if all(
            isinstance(node, Number | Name | Negative | Sum | Product) for node in walk(self.tree)
        ):
            return self.arithmetic()
        for name, variable in self.variables.items():
            self.write(f"{variable} = values[{name!r}]")
        if self.variables:
            self.floats(list(self.variables.values()))
        start = len(self.lines)
        self.write(f"result = {self.value(self.tree)}")
        self.outcome()
        if self.branch_guards:  # those in a branch not taken must exist all the same
            self.lines.insert(start, f"{self.indent}{' = '.join(self.branch_guards)} = 0.0")

    def floats(self, variables: list[str]) -> None:
        """Floats only: ints would be exact where `steps.py` rounds, and grow without bound."""
        floats = f"{' is '.join(f'{each}.__class__' for each in variables)} is float"
        sums = ", ".join(f"{each} + 0.0" for each in variables)
        self.write(f"if not {floats}:")
        self.write(f" try: {', '.join(variables)} = {sums}")
        self.write(" except OverflowError: return otherwise(values)")  # if only in a branch
        self.write(f" if not {floats}: return otherwise(values)")

    def outcome(self) -> None:
        # A divisor of the whole can only vanish into a result of 0, so most rows skip its test.
        # Returning 0.0 there also makes -0.0 and 0.0 one, as in every other way to evaluate.
        if not self.guards:  # two comparisons: what most rows of most formulas need
            self.write(f"if result > 0.0 and result <= {sys.float_info.max!r}: return result")
        self.write(f"if result and {_write_finite_test('result', *self.guards)}: return result")
        finite = _write_finite_test("result", *self.guards, *self.root_divisors)
        self.write(f"return 0.0 if result == 0.0 and {finite} else None")

    def arithmetic(self) -> None:
        """Without asking each value for its class, which would cost as much as the formula.

        Where two values meet, one has 0.0 added: what can do that is a number, and the other
        becomes a float beside it, or a TypeError. Before a division their sum must be a float, so
        neither is a number of numpy's, which would warn where Python raises. (It still does where
        it overflows.) Two ints are made floats first.
        """
        self.write(f"result = {self.sure(self.tree)[0]}")
        if not self.ends_in_division():
            self.write("if result.__class__ is not float: return otherwise(values)")
        self.outcome()

    def sure(self, node: Node) -> tuple[str, bool]:
        """An expression, and whether it has met a float."""
        match node:
            case Number(value=value):
                return repr(value), True
            case Negative(operand=operand):
                return f"(0.0 - {self.sure(operand)[0]})", True
            case (
                Sum(operands=operands, operators=operators)
                | Product(operands=operands, operators=operators)
            ):
                (total, met), *others = map(self.sure, operands)
                for sign, part, (text, other) in zip(operators, operands[1:], others, strict=True):
                    if sign == "/" and not isinstance(part, Number):
                        total = self.divide(total, text, whole=node is self.tree)
                    else:
                        total = f"{total if met or other else f'({total} + 0.0)'} {sign} {text}"
                    met = True
                return f"({total})", True
            case Name(name=name):
                return f"values[{name!r}]", False
            case _:
                raise AssertionError(f"{node} is not plain arithmetic")

    def divide(self, total: str, operand: str, *, whole: bool) -> str:
        dividend, divisor = self.keep(total), self.keep(operand)
        floats = f"({dividend} + {divisor}).__class__ is float"
        self.write(f"if not {floats}:")
        self.write(f" {dividend} += 0.0; {divisor} += 0.0")
        self.write(f" if not {floats}: raise TypeError")
        (self.root_divisors if whole else self.guards).append(divisor)
        return f"{dividend} / {divisor}"

    def ends_in_division(self) -> bool:
        """By what is not a number as it stands, so that the last result is known to be a float."""
        match self.tree:
            case Product(operands=(*_, last), operators=(*_, "/")):
                return not isinstance(last, Number)
        return False

    def write(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def keep(self, expression: str) -> str:
        variable = f"t{self.temporaries}"
        self.temporaries += 1
        self.write(f"{variable} = {expression}")
        return variable

    def guard(self, node: Node) -> str:
        """An operand that must be finite. Numbers are, as they stand."""
        value = self.value(node)
        if isinstance(node, Number):
            return value
        if self.branches:
            value = self.keep(value)
            self.branch_guards.append(value)
        elif not isinstance(node, Name):
            value = self.keep(value)
        if value not in self.guards:
            self.guards.append(value)
        return value

    def value(self, node: Node) -> str:
        """An expression for a node, after writing the lines that it needs."""
        match node:
            case Number(value=value):
                # The repr of a float reads back as the very same float.
                return repr(value)
            case Name(name=name):
                return self.variables[name]
            case Negative(operand=operand):
                return f"(-{self.value(operand)})"
            case Sum() | Product():
                return self.chain(node)
            case ValueComparison(operator=operator, left=left, right=right):
                return f"(1.0 if {self.guard(left)} {operator} {self.guard(right)} else 0.0)"
            case Call(function="if", arguments=arguments):
                return self.branch(*arguments)
            case Call(function=function, arguments=arguments):
                swallows = FUNCTIONS[function].swallows
                operands = [self.guard(a) if swallows else self.value(a) for a in arguments]
                # A line of its own: Python reads at most 200 parentheses inside each other.
                return self.keep(f"f_{function}({', '.join(operands)})")

    def chain(self, node: Sum | Product) -> str:
        first, *others = node.operands
        words = [self.value(first)]
        for operator, part in zip(node.operators, others, strict=True):
            if operator != "/":
                operand = self.value(part)
            elif node is self.tree and not isinstance(part, Number):
                operand = self.keep(self.value(part))
                self.root_divisors.append(operand)
            else:
                operand = self.guard(part)
            words += [operator, operand]
        return f"({' '.join(words)})"

    def branch(self, condition: Node, yes: Node, no: Node) -> str:
        test = self.guard(condition)
        result = self.keep("0.0")
        self.branches += 1
        for opening, part in ((f"if {test} != 0.0:", yes), ("else:", no)):
            self.write(opening)
            self.indent += " "
            self.write(f"{result} = {self.value(part)}")
            self.indent = self.indent[:-1]
        self.branches -= 1
        return result


def _write_finite_test(*operands: str) -> str:
    return " + ".join(f"({operand} - {operand})" for operand in operands) + " == 0.0"
