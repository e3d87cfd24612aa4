"""Formulas against plain Python, simpleeval, CEL, numpy by hand and numexpr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cel
import celpy
import numexpr
import numpy as np
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides
from simpleeval import SimpleEval

from tallymark.formula import Formula

TEXT = "(a * 0.6 + b * 0.4) * success_pct / (avg_latency * total_cost)"
NAMES = ("a", "b", "success_pct", "avg_latency", "total_cost")
PAGE = "docs/formulas.md"


def single_rows(text: str, *, whole: bool = False) -> MakeSides:
    """Each row by itself, from a dict of its values; slow peers get a hundredth of them."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        formula = Formula.parse(text, NAMES)
        dice, shape = np.random.default_rng(0), (size, len(formula.names))
        drawn = dice.integers(1, 100, shape) if whole else dice.random(shape) + 0.01
        rows = [dict(zip(formula.names, each, strict=True)) for each in drawn.tolist()]
        code, scope = compile(text, "formula", "eval"), dict[str, Any](__builtins__={})
        simple = SimpleEval()
        parsed = simple.parse(text)
        rust = cel.compile(text)
        environment = celpy.Environment()
        program = environment.program(environment.compile(text))

        def by_simpleeval(row: dict[str, float]) -> Any:
            simple.names = row
            return simple.eval(text, previously_parsed=parsed)

        def by_celpy(row: dict[str, float]) -> Any:
            doubles = {name: celpy.celtypes.DoubleType(value) for name, value in row.items()}
            return program.evaluate(doubles)

        sides = {
            OURS: Side(lambda: [formula.evaluate(row) for row in rows], size),
            "Python's eval": Side(lambda: [eval(code, {}, row) for row in rows], size),
            "eval that keeps its scope": Side(
                lambda: [eval(code, scope, row) for row in rows], size
            ),
        }
        if whole:  # to others a quotient of ints is an int
            yield sides
            return
        some = rows[: size // 100]
        ways: tuple[Callable[[Any], Any], ...] = (by_simpleeval, by_celpy, rust.execute)
        for row in some[:10]:
            assert len({formula.evaluate(row), *(float(way(row)) for way in ways)}) == 1
        yield sides | {
            "simpleeval": Side(lambda: [by_simpleeval(row) for row in some], len(some)),
            "CEL in Rust": Side(lambda: [rust.execute(row) for row in some], len(some)),
            "CEL in Python": Side(lambda: [by_celpy(row) for row in some], len(some)),
        }

    return make


def columns(text: str) -> MakeSides:
    """All rows at once, from arrays."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        formula, dice = Formula.parse(text, NAMES), np.random.default_rng(0)
        given = {name: dice.random(size) + 0.01 for name in formula.names}
        code = compile(text, "formula", "eval")

        def with_care() -> Any:
            """Undefined where anything is not finite, as numpy says it in the fewest passes."""
            with np.errstate(all="ignore"):
                found = eval(code, {}, given)
                finite = np.isfinite(found)
                for column in given.values():
                    finite &= np.isfinite(column)
            found[~finite] = np.nan
            return found

        sides: dict[str, Any] = {
            OURS: lambda: formula.evaluate_many(given).values,
            "numpy": lambda: eval(code, {}, given),
            "numpy with care": with_care,
            "numexpr, one thread": lambda: numexpr.evaluate(text, local_dict=given),
        }
        if text == "a / b":
            a, b = given.values()
            sides["numpy but x / 0"] = lambda: np.divide(
                a, b, out=np.full(len(a), np.nan), where=b != 0
            )
        assert all(np.allclose(work(), sides[OURS](), rtol=1e-15) for work in sides.values())
        yield sides

    return make


EVALS = (Promise(1.0, "Python's eval", PAGE), Promise(1.2, "eval that keeps its scope", PAGE))
BENCHES = (
    Bench(
        "a row by itself",
        f"`{TEXT}` for one row of a dict: no longer than Python's own `eval` of compiled code, "
        "with care for what is undefined, and little longer than one that keeps its scope.",
        single_rows(TEXT),
        (1_000, 10_000, 100_000),
        "rows",
        (
            *EVALS,
            Promise(0.1, "simpleeval", PAGE),
            Promise(0.1, "CEL in Rust", PAGE),
            Promise(0.01, "CEL in Python", PAGE),
        ),
        each="row",
    ),
    Bench(
        "a quotient by itself",
        "`a / b` for one row of a dict.",
        single_rows("a / b"),
        (1_000, 10_000, 100_000),
        "rows",
        EVALS,
        each="row",
    ),
    Bench(
        "a quotient of whole numbers",
        "`a / b` for one row of a dict with ints, which become floats first.",
        single_rows("a / b", whole=True),
        (1_000, 10_000, 100_000),
        "rows",
        (Promise(1.6, "eval that keeps its scope", PAGE),),
        each="row",
    ),
    Bench(
        "columns",
        f"`{TEXT}` for all rows of arrays: no slower than numpy by hand and than numexpr.",
        columns(TEXT),
        (100_000, 1_000_000, 10_000_000),
        "rows",
        (Promise(1.0, "numpy", PAGE), Promise(1.0, "numexpr, one thread", PAGE)),
    ),
    Bench(
        "a quotient of columns",
        "`a / b` for all rows of arrays: a single operation, so that looking for infinity and NaN "
        "weighs most; compiled, it looks while it divides.",
        columns("a / b"),
        (10_000, 100_000, 1_000_000),
        "rows",
        (
            Promise(1.1, "numpy but x / 0", PAGE),
            Promise(1.1, "numpy with care", PAGE),
            Promise(1.1, "numpy", PAGE),
        ),
    ),
)
