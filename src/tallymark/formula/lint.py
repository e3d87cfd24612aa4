"""Warnings and notes about a formula, found before anything runs.

A claim without "may" or "can" holds for every row whose values keep to their ranges. "Can" comes
with an example that was found; "may" means that the analysis could not rule it out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tallymark.errors import Place
from tallymark.formula.bounds import Analysis, Hazard
from tallymark.formula.formula_names import (
    DERIVED,
    MORE_METRICS,
    RUN_METRICS,
    Names,
    Variable,
)
from tallymark.formula.ranges import Direction, Range
from tallymark.formula.row_evaluation import step
from tallymark.formula.tree import FormulaText, Name, Node, Region, to_text, walk
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.formula.formula import Formula

SampleRow = dict[str, float]
_CELLS = 6_000
"""Limit of rows times evals, so that lint does not make a person wait."""


@dataclass(frozen=True, slots=True)
class SampleEval:
    """Result of one eval of a sample run."""

    passed: bool
    latency: float
    cost: float


def run_metrics(outcomes: Sequence[SampleEval]) -> SampleRow:
    """The run-wide metrics of a run with at least one eval."""
    row: SampleRow = {"success_pct": 100.0 * sum(o.passed for o in outcomes) / len(outcomes)}
    for measure in ("latency", "cost"):
        values = [getattr(outcome, measure) for outcome in outcomes]
        total = math.fsum(values)
        row |= {
            f"max_{measure}": max(values),
            f"min_{measure}": min(values),
            f"avg_{measure}": total / len(values),
            f"total_{measure}": total,
        }
    return row


def _more_metrics(outcomes: Sequence[SampleEval], index: int) -> SampleRow:
    """Metrics that depend on the run as a whole."""
    latencies = sorted(each.latency for each in outcomes)
    row = {f"p{p}_latency": latencies[p * len(latencies) // 100] for p in (50, 95, 99)}
    sent, answered = (0, 100, 2_000, 60_000)[index % 4], (0, 10, 500)[index % 3]
    row |= {"input_tokens": sent, "output_tokens": answered, "total_tokens": sent + answered}
    return row | {"judge_cost": (0.0, 0.01, 0.5, 3.0)[index % 4], "error_pct": 25.0 * (index % 5)}


def sample_rows(names: Names, used: Sequence[str]) -> Iterator[SampleRow]:
    """Rows for the names that a formula uses, plain cases first; fewer where there are many."""
    draw = random.Random(7)  # noqa: S311 (not for secrets)
    evals = _list_evals(names, used)
    plain = [names[name] for name in used if names[name].measure == "number"]
    for index in range(max(10, min(200, _CELLS // max(1, len(evals))))):
        # Free and instant, then everything passed, then nothing; after that at random.
        outcomes = [
            SampleEval(
                passed=draw.random() < 0.5 if index > 3 else index != 2,
                latency=0.0 if index == 0 else draw.choice((0.0, 0.2, 1.0, 8.0, 60.0)),
                cost=0.0 if index == 0 else draw.choice((0.0, 0.0001, 0.01, 0.5, 3.0, 40.0)),
            )
            for _ in range(max(1, len(evals)) + draw.randrange(3))
        ]
        row = run_metrics(outcomes) | _more_metrics(outcomes, index)
        for name, outcome in zip(evals, outcomes, strict=False):
            row |= {name: float(outcome.passed)}
            row |= {name + end: getattr(outcome, kind) for end, kind in DERIVED.items()}
        yield row | {variable.name: _draw_value(variable, draw) for variable in plain}


def _list_evals(names: Names, used: Sequence[str]) -> list[str]:
    """The evals behind the names that are used, each once."""
    found = dict[str, None]()
    for name in used:
        if names[name].measure == "eval":
            found[name] = None
        elif names[name].measure in ("latency", "cost") and not (
            name in RUN_METRICS or names[name] is MORE_METRICS.get(name)
        ):
            found[name.removesuffix("_latency").removesuffix("_cost")] = None
    return list(found)


def _draw_value(variable: Variable, draw: random.Random) -> float:
    choices = (variable.low, variable.high, 0.0, 1.0, -1.0, 0.5, 2.0, 100.0, draw.uniform(-10, 10))
    return draw.choice(
        [v for v in choices if math.isfinite(v) and variable.low <= v <= variable.high]
        or [variable.low if math.isfinite(variable.low) else variable.high]
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a formula's author should know. `code` is stable, for filters."""

    code: str
    level: Literal["warning", "note"]
    message: str
    place: Place | None = None
    hint: str | None = None

    def __str__(self) -> str:
        where = "" if self.place is None else f"{self.place}: "
        hint = "" if self.hint is None else f"; {self.hint}"
        return f"{where}{self.message}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "code": self.code,
            "level": self.level,
            "message": self.message,
            "column": self.place.column if self.place else None,
            "line": self.place.line if self.place else None,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True)
class Lint:
    """The range of all results, how they move with each name, and the findings."""

    range: Range | None
    """None when there never is a result."""
    directions: dict[str, Direction]
    """For each name that matters; a name that is not here never moves the result."""
    may_divide_by_zero: bool
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == "warning")

    def to_dict(self) -> dict[str, Any]:
        """For `--json`; an end without a bound is null."""
        ends = (None, None) if self.range is None else (self.range.low, self.range.high)
        low, high = (end if end is not None and math.isfinite(end) else None for end in ends)
        return {
            "range": {"low": low, "high": high} if self.range is not None else None,
            "directions": {name: way.value for name, way in self.directions.items()},
            "may_divide_by_zero": self.may_divide_by_zero,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def lint(formula: Formula) -> Lint:
    """Analyse a formula; takes milliseconds for any formula."""
    linter = _Linter(formula)
    result = linter.analysis.result
    return Lint(
        result.range,
        {name: result.directions[name] for name in formula.names if name in result.directions},
        any(hazard.kind == "divide-by-zero" for hazard in linter.analysis.hazards),
        tuple(linter.findings()),
    )


class _Linter:
    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self.names: Names = formula.declared
        self.source = FormulaText(formula.text)
        self.analysis = Analysis(formula.tree, self.names)
        self._rows = sample_rows(self.names, formula.names)
        self._made: list[SampleRow] = []

    def findings(self) -> Iterator[Finding]:
        yield from self.ambiguous_names()
        yield from self.taken_names()
        yield from map(self.hazard, self.analysis.hazards)
        yield from self.result()
        yield from self.directions()
        for node, reason in self.analysis.idle:
            text = _quote(node)
            message = f"{text} can never matter: {reason}"
            yield Finding("idle-term", "warning", message, self.place(node.at))

    def ambiguous_names(self) -> Iterator[Finding]:
        for name in self.formula.names:
            for at, char in enumerate(name):
                left, right = name[:at], name[at + 1 :]
                if char == "-" and left in self.names and right in self.names:
                    node = next(n for n in walk(self.formula.tree) if n == Name(name))
                    message = f"'{name}' is read as the one name, not as {left} minus {right}"
                    hint = f"write {left} - {right}, with spaces, to subtract"
                    yield Finding("hyphen", "warning", message, self.place(node.at), hint)

    def taken_names(self) -> Iterator[Finding]:
        """Metrics that are not meant, because an eval or a scorer has their name."""
        of_a_run = RUN_METRICS.keys() <= self.names.keys()
        for name in self.formula.names if of_a_run else ():
            if name in MORE_METRICS and self.names[name] is not MORE_METRICS[name]:
                node = next(n for n in walk(self.formula.tree) if n == Name(name))
                message = f"{name} is that of your eval or scorer here, not the run's"
                yield Finding("taken-name", "note", message, self.place(node.at))

    def hazard(self, hazard: Hazard) -> Finding:
        subject = _quote(hazard.operand)
        what, trouble, mend = _HAZARDS[hazard.kind]
        code, place = hazard.kind, self.place(hazard.operand.at)
        if hazard.always:
            return Finding(code, "warning", f"always {what}: {subject} is always {trouble}", place)
        example = self.example(lambda row: _goes_wrong(hazard, row))
        if code == "divide-by-zero" and self.analysis.is_never_negative(hazard.operand):
            mend = _KEEP_ABOVE
        hint = mend.format(_shorten(hazard.operand))
        if example is None:
            message = f"may {what}: {subject} could be {trouble}"
        elif isinstance(hazard.operand, Name):
            message = f"can {what}: when {hazard.operand.name} is {trouble}"
        else:
            values = self.describe_row(example, hazard.operand)
            message = f"can {what}: {subject} is {trouble} when {values}"
        return Finding(code, "warning", message, place, hint)

    def result(self) -> Iterator[Finding]:
        span = self.analysis.result.range
        if span is None:
            yield Finding("undefined", "warning", "the score never has a value")
            return
        if span.is_point:
            yield Finding("constant", "warning", f"the score is always {format_number(span.low)}")
            return
        yield Finding("range", "note", describe_range(span))
        if span.low < 0.0:
            row = self.example(lambda row: (self.formula.evaluate(row) or 0.0) < 0.0)
            if row is None:
                yield Finding("negative", "warning", "the score may be negative")
            else:
                value = format_number(self.formula.evaluate(row) or 0.0)
                message = f"the score can be negative: {value} when {self.describe_row(row)}"
                yield Finding("negative", "warning", message)

    def directions(self) -> Iterator[Finding]:
        moves = self.analysis.result.directions
        for name in self.formula.names:
            measure = self.names[name].measure
            if name not in moves or measure == "number":
                continue
            costly = measure in ("cost", "latency")
            bad = Direction.UP if costly else Direction.DOWN
            code = f"rises-with-{measure}" if costly else f"falls-with-{measure}"
            verb, event = (
                ("rise", f"with {name}")
                if costly
                else ("fall", f"when {name} passes" if measure == "eval" else f"as {name} rises")
            )
            if moves[name] is bad:
                yield Finding(code, "warning", f"the score {verb}s {event}")
            elif moves[name] is Direction.EITHER:
                row = self.example(partial(self.moves_badly, name, bad))
                word = "may" if row is None else "can"
                found = "" if row is None else f", for example from {self.describe_row(row)}"
                yield Finding(code, "warning", f"the score {word} {verb} {event}{found}")

    def moves_badly(self, name: str, bad: Direction, row: SampleRow) -> bool:
        before = self.formula.evaluate(row)
        limit = self.names[name].high
        for more in (min(row[name] + 1.0, limit), min(row[name] * 1.5 + 0.01, limit)):
            after = self.formula.evaluate(row | {name: more})
            if before is not None and after is not None:
                if after > before and bad is Direction.UP:
                    return True
                if after < before and bad is Direction.DOWN:
                    return True
        return False

    def example(self, wanted: Callable[[SampleRow], bool]) -> SampleRow | None:
        return next((row for row in self._list_rows() if wanted(row)), None)

    def _list_rows(self) -> Iterator[SampleRow]:
        """Rows are made when first looked at: many formulas need few or none."""
        yield from self._made
        for row in self._rows:
            self._made.append(row)
            yield row

    def describe_row(self, row: SampleRow, node: Node | None = None) -> str:
        used = self.formula.names if node is None else _list_names(node)
        parts = [f"{name} = {format_number(row[name])}" for name in used[:6]]
        return ", ".join(parts) + (", ..." if len(used) > 6 else "")

    def place(self, at: Region) -> Place:
        return self.source.place(at)


# `if(total_cost != 0, ..., 0)` would give what is free the worst score of all.
_KEEP_ABOVE = "guard it with max({0}, 0.0001)"
_HAZARDS = {
    "divide-by-zero": ("divide by zero", "0", "guard it with if({0} != 0, ..., 0)"),
    "logarithm": ("be undefined", "0 or less", "keep it above 0, as in log(1 + {0})"),
    "negative-root": ("be undefined", "negative", "keep it at 0 or above with max({0}, 0)"),
    "power": ("be undefined", "0 or negative", "keep the base above 0 with max({0}, 0.001)"),
}


def _goes_wrong(hazard: Hazard, row: SampleRow) -> bool:
    """Is the operand defined, but what is made of it not?"""
    if step(hazard.operand, row).value is None:
        return False
    if hazard.kind == "divide-by-zero":
        return step(hazard.operand, row).value == 0.0
    return step(hazard.node, row).value is None


def describe_range(span: Range) -> str:
    """In words: `the score is between 0 and 100`."""
    low, high = span.low, span.high
    if math.isinf(low) and math.isinf(high):
        return "the score has no known bounds"
    if math.isinf(high):
        return f"the score is at least {format_number(low)}, with no known upper bound"
    if math.isinf(low):
        return f"the score is at most {format_number(high)}, with no known lower bound"
    return f"the score is between {format_number(low)} and {format_number(high)}"


def _list_names(node: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.name for each in walk(node) if isinstance(each, Name)))


def _shorten(node: Node) -> str:
    text = to_text(node)
    return text if len(text) <= 40 else text[:37] + "..."


def _quote(node: Node) -> str:
    return _shorten(node) if isinstance(node, Name) else f"`{_shorten(node)}`"
