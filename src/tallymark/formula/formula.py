"""`Formula`: an expression over named numbers, parsed and checked once, evaluated many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tallymark.formula.explanation import Explanation, list_terms
from tallymark.formula.formula_names import Names
from tallymark.formula.parser import DEFAULT_LIMITS, FormulaLimits, parse
from tallymark.formula.row_evaluation import NamedValues, step
from tallymark.formula.tree import Name, Node, to_text, walk

if TYPE_CHECKING:
    from tallymark.formula.column_evaluation import ColumnProgram, ColumnResult
    from tallymark.formula.lint import Lint


@dataclass(eq=False, repr=False)
class Formula:
    """A checked formula. Make one with `Formula.parse`."""

    text: str
    tree: Node
    declared: Names

    @classmethod
    def parse(
        cls,
        text: str,
        names: Names | Mapping[str, tuple[float, float]] | Iterable[str] | None = None,
        *,
        limits: FormulaLimits = DEFAULT_LIMITS,
    ) -> Formula:
        """Parse and check a formula; FormulaError lists everything that is wrong with it.

        `names` are those it may use: a list, a mapping of names to the (low, high) of their
        values, or `Names.of_run(evals)` for a suite. Without it, the run-wide metrics.
        """
        declared = names if isinstance(names, Names) else Names.of(names)
        if isinstance(text, str):
            text = text.removeprefix("\ufeff")  # what some editors begin a file with
        return cls(text, parse(text, declared, limits), declared)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names that it uses, in order of appearance."""
        used = (node.name for node in walk(self.tree) if isinstance(node, Name))
        return tuple(dict.fromkeys(used))

    def evaluate(self, values: NamedValues) -> float | None:
        """The value of one row, None where it is undefined (`reason` then gives the cause)."""
        value = step(self.tree, values).value
        return None if value is None else value + 0.0  # -0.0 and 0.0 are one

    def reason(self, values: NamedValues) -> str | None:
        """Why the value of a row is undefined, in words; None when it has one."""
        return step(self.tree, values).reason

    def evaluate_many(self, columns: Mapping[str, Any]) -> ColumnResult:
        """The value of every row of some columns, in blocks."""
        return self._column_program.evaluate(columns)

    @cached_property
    def _column_program(self) -> ColumnProgram:
        from tallymark.formula.column_evaluation import ColumnProgram  # noqa: PLC0415 (numpy is heavy)

        return ColumnProgram(self.tree)

    def lint(self) -> Lint:
        """Analyse every possible result before anything runs."""
        from tallymark.formula.lint import lint  # noqa: PLC0415 (most formulas are only evaluated)

        return lint(self)

    def explain(self, values: NamedValues) -> Explanation:
        """The tree with values put in, and what each term contributes."""
        steps = step(self.tree, values)
        value = None if steps.value is None else steps.value + 0.0
        terms = tuple(list_terms(steps, value)) if value is not None else ()
        return Explanation(str(self), value, steps.reason, terms, steps, values)

    def __str__(self) -> str:
        return to_text(self.tree, guard_minus=self.declared.leading_hyphen)

    def __repr__(self) -> str:
        return f"Formula({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(self.tree)
