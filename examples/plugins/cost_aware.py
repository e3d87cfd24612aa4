"""Score the rating, minus the cost on a logarithmic scale: each factor of ten costs the same."""

import math
from typing import Any

from tallymark.scoring import AttemptMetrics, ScoringContext, ScoringResult


class CostAwareScorer:
    """score = 100 * rating / 10 - per_tenfold * log10(dollars / free), for attempts that succeeded.

    Dollars are tokens at `dollars_per_million`; what costs no more than `free` costs nothing.
    """

    def score(
        self, metrics: AttemptMetrics, config: dict[str, Any], ctx: ScoringContext
    ) -> ScoringResult:
        """Return the score, with the cost and its deduction as details."""
        if not metrics.get("succeeded"):
            return {"score": 0.0, "details": {"why": "did not succeed"}}
        free = config.get("free", 0.001)
        dollars = metrics.get("tokens_total", 0) * config.get("dollars_per_million", 5.0) / 1e6
        quality = 10.0 * min(max(metrics.get("rating", 0), 0), 10)
        cost = config.get("per_tenfold", 10.0) * math.log10(max(dollars, free) / free)
        return {
            "score": max(quality - cost, 0.0),
            "details": {"quality": quality, "dollars": dollars, "cost": cost},
        }
