"""A plugin that is a formula over the metrics. It can do no harm, so it needs no sandbox."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from tallymark.errors import ScorerError
from tallymark.formula import Formula
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.scoring import Origin, Score, plugin_score
from tallymark.scoring.score import show_value

FORMULA_NAMES = {
    "succeeded": (0.0, 1.0),
    "tokens_total": (0.0, math.inf),
    "elapsed_ms": (0.0, math.inf),
    "elapsed_s": (0.0, math.inf),
    "rating": (0.0, 10.0),
    "created_at": (0.0, math.inf),
}
"""What a formula may use, with the range of its values."""


class FormulaPlugin:
    """An attempt without a metric that the formula needs has no score, and the score says so."""

    kind: Literal["formula"] = "formula"

    def __init__(self, text: str) -> None:
        self.formula = Formula.parse(text, FORMULA_NAMES)
        self.name = f"formula: {self.formula}"

    @cached_property
    def code_hash(self) -> str:
        return hashlib.sha256(str(self.formula).encode()).hexdigest()

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],  # noqa: ARG002 (a formula looks at no context)
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,  # noqa: ARG002 (and takes no time)
    ) -> Score:
        origin = self._origin(config)
        try:
            values = self._values(metrics, config)
        except ScorerError as error:
            return _fail(str(error), origin)
        value = self.formula.evaluate(values)
        if value is None:
            return _fail(self.formula.reason(values) or "it is undefined", origin)
        return plugin_score({"score": value}, origin=origin)

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
        users: Sequence[str | None] | None = None,  # noqa: ARG002 (formulas know no users)
    ) -> list[Score]:
        try:
            rows = [self._values(metrics, config) for metrics in attempts]
        except ScorerError:  # rare enough to go the slow way
            return [self.score(metrics, config, ctx, timeout_s) for metrics in attempts]
        columns = {name: [row[name] for row in rows] for name in self.formula.names}
        # A formula without names gets a column that it does not use, for the number of rows.
        found = self.formula.evaluate_many(columns or {"succeeded": [0.0] * len(rows)})
        origin = self._origin(config)
        return [
            plugin_score({"score": value}, origin=origin)
            if value == value  # noqa: PLR0124 (NaN, where it is undefined)
            else _fail(self.formula.reason(rows[at]) or "it is undefined", origin)
            for at, value in enumerate(found.values.tolist())
        ]

    def _origin(self, config: Mapping[str, Any]) -> Origin:
        return Origin(self.name, self.code_hash, dict(config))

    def _values(
        self, metrics: Mapping[str, Any], config: Mapping[str, Any]
    ) -> dict[str, float | None]:
        if config:
            key = next(iter(config))
            raise ScorerError(
                f"a formula takes no config, and there is {key!r}",
                hint="write its number into the formula",
            )
        return {name: _read_value(name, metrics) for name in self.formula.names}


def _read_value(name: str, metrics: Mapping[str, Any]) -> float | None:
    if name == "elapsed_s":
        elapsed_ms = _read_value("elapsed_ms", metrics)
        return None if elapsed_ms is None else elapsed_ms / 1000
    value = metrics.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float):
            return float(value)
    except OverflowError:
        pass
    raise ScorerError(f"the metric {name} is a finite number, not {show_value(value)}")


def _fail(error: str, origin: Origin) -> Score:
    return Score(None, "", {"stopped": "undefined"}, error, None, origin)
