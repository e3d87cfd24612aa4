"""`WeightedScorer`: the built-in plugin, a bonus and a rating less the time and tokens used.

    score = success_bonus + rating * rating_weight
            - elapsed_seconds * time_penalty - tokens * token_penalty

The bonus is for attempts that succeeded; a metric that is missing counts as 0; a negative total
scores 0.
"""

from __future__ import annotations

import math
from typing import Any

from tallymark.errors import ScorerError, suggest
from tallymark.scoring.plugin_contract import AttemptMetrics, ScoringContext, ScoringResult
from tallymark.scoring.score import show_value

DEFAULTS = {
    "success_bonus": 100.0,
    "rating_weight": 10.0,
    "time_penalty": 1.0,
    "token_penalty": 0.01,
}


class WeightedScorer:
    """The built-in plugin; its config may override any of `DEFAULTS`."""

    def score(
        self,
        metrics: AttemptMetrics,
        config: dict[str, Any],
        ctx: ScoringContext,  # noqa: ARG002
    ) -> ScoringResult:
        """The details give every term, so that the arithmetic can be checked."""
        weights = _read_weights(config)
        rating, elapsed_ms, tokens = (
            0.0
            if (value := metrics.get(name)) is None
            else _check_finite(f"the metric {name}", value)
            for name in ("rating", "elapsed_ms", "tokens_total")
        )
        terms = {
            "success": weights["success_bonus"] if _read_succeeded(metrics) else 0.0,
            "rating": rating * weights["rating_weight"],
            # Taken from 0, not negated: a term of nothing is 0.0 and not -0.0.
            "time": 0.0 - elapsed_ms / 1000 * weights["time_penalty"],
            "tokens": 0.0 - tokens * weights["token_penalty"],
        }
        total = sum(terms.values())
        details = {**terms, "unclamped": total, "weights": weights}
        return {"score": max(total, 0.0), "details": details}


def _read_weights(config: dict[str, Any]) -> dict[str, float]:
    for key in config:
        if key not in DEFAULTS:
            near = suggest(str(key), DEFAULTS)
            hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(DEFAULTS)}"
            raise ScorerError(f"the config has an unknown key {show_value(key)}", hint=hint)
    return {
        key: _check_finite(f"the config's {key}", config.get(key, default))
        for key, default in DEFAULTS.items()
    }


def _read_succeeded(metrics: AttemptMetrics) -> bool:
    value: object = metrics.get("succeeded")
    if value not in (None, False, True):
        raise ScorerError(f"the metric succeeded is true or false, not {show_value(value)}")
    return bool(value)


def _check_finite(what: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ScorerError(f"{what} is a finite number, not {show_value(value)}")
