"""The names a formula may use: run-wide metrics, evals with what derives from them, or any.

Every name carries the range its values can have and what it measures, which is what lint needs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tallymark.errors import FormulaError, Problem, suggest
from tallymark.formula.functions import FUNCTIONS

Measure = Literal["success", "eval", "cost", "latency", "number"]
# Looking for the longest name in text that runs on takes time in proportion to it.
MAX_NAME = 128
INF = math.inf


@dataclass(frozen=True, slots=True)
class Variable:
    """A name with the range and the measure known before anything runs."""

    name: str
    measure: Measure = "number"
    low: float = -INF
    high: float = INF
    help: str = ""
    """Description for the docs."""


_STATISTICS = {
    "max": "most of any case that ran",
    "min": "least of any case that ran",
    "avg": "mean of the cases that ran",
    "total": "sum over the cases that ran",
}


def _list_run_metrics() -> dict[str, Variable]:
    table = {
        f"{statistic}_{measure}": Variable(f"{statistic}_{measure}", measure, 0.0, help=words)
        for measure in ("latency", "cost")
        for statistic, words in _STATISTICS.items()
    }
    passed = "share of the results that passed, of those that ran; with epochs, a case has several"
    return table | {"success_pct": Variable("success_pct", "success", 0.0, 100.0, passed)}


RUN_METRICS: Mapping[str, Variable] = _list_run_metrics()
"""The run-wide metrics that every suite's formula may use, by name: no eval may be called so."""

_OF_TOKENS = (
    "sum over the cases that ran, as providers and traces count; unknown where one does not"
)
MORE_METRICS: Mapping[str, Variable] = {
    each.name: each
    for each in (
        Variable("judge_cost", "cost", 0.0, help="of judges, which is in no other cost"),
        *(
            Variable(f"p{percent}_latency", "latency", 0.0, help=f"percentile {percent}")
            for percent in (50, 95, 99)
        ),
        *(
            Variable(f"{kind}_tokens", "cost", 0.0, help=_OF_TOKENS)
            for kind in ("total", "input", "output")
        ),
        Variable("error_pct", "number", 0.0, 100.0, "share of all results that could not run"),
    )
}
"""Run-wide metrics whose names are not reserved: an eval or a scorer of that name replaces them."""

DERIVED: Mapping[str, Measure] = {"_latency": "latency", "_cost": "cost"}
"""Endings that make further names from an eval's name."""

WELL_FORMED = re.compile(r"[A-Za-z0-9_-]+")
# A number, or the beginning of one: `1e` would turn `1e-3` into a subtraction.
_NUMERIC = re.compile(r"-*[0-9]+([eE]-?[0-9]*)?")


class Names(Mapping[str, Variable]):
    """The declared names of a formula, each with its range. Immutable."""

    def __init__(self, variables: Iterable[Variable], *, of_run: bool = False) -> None:
        """`of_run` adds the metrics of a run whose names the variables leave free."""
        self._table = {variable.name: variable for variable in variables}
        if of_run:
            self._table = {**self._table, **MORE_METRICS, **self._table}
        self.words = frozenset(self._table)
        # Longest first: `a-b` is the name `a-b` where there is one, not `a` minus `b`.
        self.lengths = tuple(sorted({len(n) for n in (*self._table, *FUNCTIONS)}, reverse=True))
        self.leading_hyphen = any(name.startswith("-") for name in self._table)

    @classmethod
    def of(cls, names: Names | Mapping[str, tuple[float, float]] | Iterable[str] | None) -> Names:
        """Names from any form that `Formula.parse(names=...)` accepts.

        Plain names, or names with the (low, high) that their values keep to; None stands for
        the run-wide metrics.
        """
        if names is None:
            return cls(RUN_METRICS.values(), of_run=True)
        if isinstance(names, Names):
            return names
        if isinstance(names, str):
            raise FormulaError(
                "names must be a list of names, not one string", hint=f"write names=[{names!r}]"
            )
        ranges = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, (-INF, INF))
        problems = [p for name in ranges for p in _find_name_problems(name, "name")]
        if problems:
            raise FormulaError(problems)
        return cls(Variable(name, "number", low, high) for name, (low, high) in ranges.items())

    @classmethod
    def of_run(cls, evals: Iterable[str] = ()) -> Names:
        """The run-wide metrics, and for each eval its result, its latency and its cost."""
        evals = list(evals)
        if problems := eval_name_problems(evals):
            raise FormulaError(problem for _, problem in problems)
        variables = list(RUN_METRICS.values())
        for name in evals:
            variables.append(Variable(name, "eval", 0.0, 1.0))
            variables += [Variable(name + end, kind, 0.0) for end, kind in DERIVED.items()]
        return cls(variables, of_run=True)

    def __getitem__(self, name: str) -> Variable:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def nearest(self, wrong: str) -> str | None:
        """The known name or function that was most likely meant."""
        return suggest(wrong, [*self._table, *FUNCTIONS])


def eval_name_problems(names: Sequence[str | None]) -> list[tuple[int, Problem]]:
    """Problems of a suite's eval names, each with the index of the eval it concerns."""
    found: list[tuple[int, Problem]] = []
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name is None:
            continue
        if name in first:
            message = f"two evals are named '{name}': number {first[name] + 1} and {index + 1}"
            found.append((index, Problem(message, hint="give each a name of its own")))
            continue
        first[name] = index
        found += [(index, problem) for problem in _find_name_problems(name, "eval name")]
    for name, index in first.items():
        for ending in DERIVED:
            # `total` would make the metric `total_cost`, `foo` the name of an eval `foo_cost`.
            made = name + ending
            other = "a run-wide metric" if made in RUN_METRICS else "the name of another eval"
            if made in RUN_METRICS or made in first:
                message = f"eval '{name}' would make '{made}', which is {other}"
                found.append((index, Problem(message, hint="rename one of them")))
    return sorted(found, key=lambda pair: pair[0])


def make_name_schema(*, of_eval: bool) -> dict[str, Any]:
    """JSON Schema of a single name; a schema cannot compare one name with another."""
    reserved = {*FUNCTIONS, *RUN_METRICS}
    if of_eval:
        reserved |= {made.removesuffix(end) for made in RUN_METRICS for end in DERIVED}
    no_name = [{"enum": sorted(reserved)}, {"pattern": f"^(-+|{_NUMERIC.pattern})$"}]
    return {
        "type": "string",
        "pattern": f"^{WELL_FORMED.pattern}$",
        "maxLength": MAX_NAME,
        "not": {"anyOf": no_name},
    }


def _find_name_problems(name: str, what: str) -> Iterator[Problem]:
    shown = name if len(name) <= 40 else name[:40] + "..."
    if name == "":
        yield Problem(f"an {what} is empty" if what[0] == "e" else f"a {what} is empty")
    elif len(name) > MAX_NAME:
        yield Problem(f"{what} '{shown}' has {len(name)} characters; {MAX_NAME} are allowed")
    elif not WELL_FORMED.fullmatch(name):
        allowed = "only letters a-z, digits, _ and - are allowed"
        yield Problem(f"{what} {shown!r} has a character that formulas cannot use", hint=allowed)
    elif not name.strip("-"):
        yield Problem(f"{what} '{shown}' reads as a minus sign", hint="add a letter")
    elif _NUMERIC.fullmatch(name):
        yield Problem(f"{what} '{shown}' reads as a number", hint="add a letter")
    elif name in RUN_METRICS and what == "eval name":
        yield Problem(
            f"{what} '{name}' is reserved for the run-wide metric", hint="rename the eval"
        )
    elif name in FUNCTIONS:
        yield Problem(f"{what} '{name}' is reserved for the function {name}()", hint="rename it")
