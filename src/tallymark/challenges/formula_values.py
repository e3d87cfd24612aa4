"""What a challenge's formula may use: the names, and their values for one attempt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tallymark.challenges.attempt import Metrics
from tallymark.challenges.challenge import Challenge
from tallymark.errors import FormulaError, Problem
from tallymark.formula import Formula, Names, Variable

METRICS = (
    Variable("succeeded", "eval", 0.0, 1.0),
    Variable("tokens_total", "number", 0.0),
    Variable("elapsed_ms", "latency", 0.0),
    Variable("elapsed_s", "latency", 0.0),
    Variable("rating", "number", 0.0, math.inf),
    Variable("cost", "cost", 0.0),
    Variable("calls", "number", 0.0),
    Variable("number", "number", 1.0),
    Variable("created_at", "number", 0.0),
)
"""Of every challenge. `number` is 1 for an agent's first attempt."""


def formula_names(dimensions: Sequence[str], own: Sequence[str]) -> Names:
    """The metrics, the dimensions with their `total`, and the evaluator's own metrics."""
    Names.of(own)  # refuses what is no name
    groups = [
        ("a metric", METRICS),
        ("a dimension", [Variable(key, "number", 0.0, 1000.0) for key in dimensions]),
        ("the dimensions' total", [Variable("total", "number", 0.0, 1000.0)] if dimensions else []),
        ("a metric of the evaluator", [Variable(name) for name in own]),
    ]
    found: dict[str, tuple[str, Variable]] = {}
    for what, variables in groups:
        for each in variables:
            if each.name in found:
                first = found[each.name][0]
                message = f"the name '{each.name}' is {first} and also {what}"
                raise FormulaError([Problem(message, hint="rename one of them")])
            found[each.name] = (what, each)
    return Names(variable for _, variable in found.values())


def challenge_formula(challenge: Challenge) -> Formula:
    """The formula that scores a challenge, which must have one."""
    keys = tuple(each.key for each in challenge.scoring.dimensions)
    own = tuple(challenge.evaluator.options.get("metrics", ()))
    return _parse_formula(challenge.scoring.formula or "", keys, own)


@lru_cache(maxsize=64)
def _parse_formula(text: str, dimensions: tuple[str, ...], own: tuple[str, ...]) -> Formula:
    return Formula.parse(text, formula_names(dimensions, own))


def formula_values(
    metrics: Metrics, number: int, dimensions: Mapping[str, float], total: float | None
) -> dict[str, float | None]:
    """One attempt's values by name; None is unknown."""
    elapsed = metrics.elapsed_ms
    return {
        **metrics.more,
        **dimensions,
        "succeeded": float(metrics.succeeded),
        "tokens_total": metrics.tokens_total,
        "elapsed_ms": elapsed,
        # As a float first, which is what a database divides.
        "elapsed_s": None if elapsed is None else float(elapsed) / 1000,
        "rating": metrics.rating,
        "cost": metrics.cost,
        "calls": metrics.calls,
        "number": number,
        "created_at": metrics.created_at,
        "total": total,
    }
