"""Formulas against simpleeval, CEL, numpy by hand and numexpr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import celpy
import numexpr
import numpy as np
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides
from simpleeval import SimpleEval

from tallymark.formula import Formula

TEXT = "(a * 0.6 + b * 0.4) * success_pct / (avg_latency * total_cost)"
NAMES = ("a", "b", "success_pct", "avg_latency", "total_cost")


@contextmanager
def single_rows(size: int) -> Iterator[Sides]:
    """Evaluate each row by itself, from a dict of its values."""
    formula, dice = Formula.parse(TEXT, NAMES), np.random.default_rng(0)
    drawn = dice.random((size, len(NAMES))) + 0.01
    rows = [dict(zip(NAMES, each, strict=True)) for each in drawn.tolist()]
    simple = SimpleEval()
    parsed = simple.parse(TEXT)
    environment = celpy.Environment()
    program = environment.program(environment.compile(TEXT))

    def by_simpleeval(row: dict[str, float]) -> Any:
        simple.names = row
        return simple.eval(TEXT, previously_parsed=parsed)

    def by_celpy(row: dict[str, float]) -> Any:
        doubles = {name: celpy.celtypes.DoubleType(value) for name, value in row.items()}
        return program.evaluate(doubles)

    some = rows[: size // 10]
    for row in some[:10]:
        assert len({formula.evaluate(row), by_simpleeval(row), float(by_celpy(row))}) == 1
    yield {
        OURS: Side(lambda: [formula.evaluate(row) for row in rows], size),
        "simpleeval": Side(lambda: [by_simpleeval(row) for row in rows], size),
        "CEL in Python": Side(lambda: [by_celpy(row) for row in some], len(some)),
    }


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
        assert all(np.allclose(work(), sides[OURS](), rtol=1e-15) for work in sides.values())
        yield sides

    return make


BENCHES = (
    Bench(
        "a row by itself",
        f"`{TEXT}` for one row of a dict, with care for what is undefined.",
        single_rows,
        (1_000, 10_000, 100_000),
        "rows",
        (Promise(10.0, "simpleeval"), Promise(0.1, "CEL in Python")),
        each="row",
    ),
    Bench(
        "columns",
        f"`{TEXT}` for all rows of arrays: no slower than numpy by hand and than numexpr.",
        columns(TEXT),
        (100_000, 1_000_000, 10_000_000),
        "rows",
        (Promise(1.0, "numpy"), Promise(1.0, "numexpr, one thread")),
    ),
)
