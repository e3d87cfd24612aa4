"""Formulas against plain Python, simpleeval, numpy by hand and numexpr, side by side in one run.

Each line is a ratio: ours divided by the peer's, so that the machine's speed cancels out. The
promise is in the last column; a broken one makes this exit with 1.
"""

from __future__ import annotations

import os
import sys
import timeit
from collections.abc import Callable
from typing import Any

os.environ["NUMEXPR_NUM_THREADS"] = "1"

import numexpr
import numpy as np
from simpleeval import SimpleEval

from tallymark.formula import Formula, Names

TEXT = "(a * 0.6 + b * 0.4) * success_pct / (avg_latency * total_cost)"
ROW = {"a": 1.0, "b": 0.0, "success_pct": 80.0, "avg_latency": 1.2, "total_cost": 0.0177}
broken: list[str] = []


def seconds(*works: Callable[[], object], number: int, rounds: int) -> list[float]:
    """The best time of each, taken in turns so that a noisy moment hits all of them."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, work in enumerate(works):
            best[index] = min(best[index], timeit.timeit(work, number=number) / number)
    return best


def report(what: str, ours: float, theirs: float, promise: float) -> None:
    ratio = ours / theirs
    kept = ratio <= promise
    broken.extend([] if kept else [what])
    print(f"  {what:<42} {ratio:6.2f}   at most {promise:.2f}   {'' if kept else 'BROKEN'}")


def one_row(formula: Formula) -> None:
    code, scope = compile(TEXT, "formula", "eval"), dict[str, Any](__builtins__={})
    simple = SimpleEval(names=ROW)
    parsed = simple.parse(TEXT)
    assert formula.evaluate(ROW) == eval(code, scope, ROW) == simple.eval(TEXT, parsed)
    ours, plain, peer = seconds(
        lambda: formula.evaluate(ROW),
        lambda: eval(code, scope, ROW),
        lambda: simple.eval(TEXT, previously_parsed=parsed),
        number=20_000,
        rounds=15,
    )
    print(f"one row: {ours * 1e9:.0f} ns")
    report("against Python's eval, precompiled", ours, plain, 1.5)
    report("against simpleeval, already parsed", ours, peer, 0.1)


def many_rows(formula: Formula, rows: int) -> None:
    rng = np.random.default_rng(0)
    columns = {name: rng.random(rows) + 0.01 for name in formula.names}
    a, b, success_pct, avg_latency, total_cost = columns.values()

    def by_hand() -> object:
        return (a * 0.6 + b * 0.4) * success_pct / (avg_latency * total_cost)

    assert np.array_equal(formula.evaluate_many(columns).values, np.asarray(by_hand()))
    ours, hand, peer = seconds(
        lambda: formula.evaluate_many(columns),
        by_hand,
        lambda: numexpr.evaluate(TEXT, local_dict=columns),
        number=1,
        rounds=max(5, 30_000_000 // rows),
    )
    print(f"{rows:,} rows: {ours * 1e3:.1f} ms")
    report("against numpy by hand", ours, hand, 1.0)
    report("against numexpr, one thread", ours, peer, 1.0)


if __name__ == "__main__":
    print(f"{TEXT}\n")
    formula = Formula.parse(TEXT, Names.of_run(["a", "b"]))
    one_row(formula)
    many_rows(formula, 1_000_000)
    many_rows(formula, 10_000_000)
    sys.exit(bool(broken))
