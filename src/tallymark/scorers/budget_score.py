"""The frame of latency, cost, token_use and iterations.

Full marks up to a target, none from a limit on, and a straight line between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tallymark.scoring.scorer_options import demand
from tallymark.text import format_number

if TYPE_CHECKING:
    from collections.abc import Callable


def make_budget_score(scorer: str, target: float, limit: float) -> Callable[[float], float]:
    """1 up to `target`, (limit - amount) / (limit - target) after it, 0 from `limit` on.

    With `limit` equal to `target` there is no line: more than the target is 0.
    """
    demand(0 <= target < math.inf, scorer, "target", target, "a finite number, 0 or more")
    wanted = f"a finite number, at least the target ({format_number(target)})"
    demand(target <= limit < math.inf, scorer, "limit", limit, wanted)

    def value(amount: float) -> float:
        if amount <= target:
            return 1.0
        return 0.0 if amount >= limit else (limit - amount) / (limit - target)

    return value
