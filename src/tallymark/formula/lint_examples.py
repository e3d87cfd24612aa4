"""Rows that could really occur, for finding an example of what lint suspects.

A run's metrics hang together (`max_cost` is never under `min_cost`), so rows are made by summing
up small made-up runs, not by drawing each name alone. The same formula always gets the same rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tallymark.formula.formula_names import (
    DERIVED,
    MORE_METRICS,
    RUN_METRICS,
    Names,
    Variable,
)

SampleRow = dict[str, float]
_CELLS = 6_000
"""Rows times evals: what a person does not wait for."""


@dataclass(frozen=True, slots=True)
class SampleEval:
    """What one eval of a run gave."""

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
    """Those that no single eval decides."""
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
        # Free and instant, then everything passed, then nothing; after that whatever comes.
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
        elif names[name].measure in ("latency", "cost") and not _is_run_wide(name, names):
            found[name.removesuffix("_latency").removesuffix("_cost")] = None
    return list(found)


def _is_run_wide(name: str, names: Names) -> bool:
    return name in RUN_METRICS or names[name] is MORE_METRICS.get(name)


def _draw_value(variable: Variable, draw: random.Random) -> float:
    choices = (variable.low, variable.high, 0.0, 1.0, -1.0, 0.5, 2.0, 100.0, draw.uniform(-10, 10))
    return draw.choice(
        [v for v in choices if math.isfinite(v) and variable.low <= v <= variable.high]
        or [variable.low if math.isfinite(variable.low) else variable.high]
    )
