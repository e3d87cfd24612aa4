"""The frame of latency, cost, token_use and iterations.

Full marks up to a target, none from a limit on, and a straight line between; or steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tallymark.errors import ScorerError
from tallymark.scoring.scorer_options import demand
from tallymark.text import format_number, format_value

if TYPE_CHECKING:
    from collections.abc import Callable

Steps = list[tuple[float, float]]
"""Pairs of an amount and its value."""
_PAIRS = "pairs of an amount, 0 or more, and its value from 0 to 1, such as [[2, 1], [5, 0.5]]"


def make_budget_score(
    scorer: str, target: float | None, limit: float | None, steps: Steps | None = None
) -> Callable[[float], float]:
    """1 up to `target`, (limit - amount) / (limit - target) after it, 0 from `limit` on.

    With `limit` equal to `target` there is no line: more than the target is 0. With `steps`, the
    value of the first step whose amount is not exceeded, and 0 after the last.
    """
    if steps is not None:
        if target is not None or limit is not None:
            raise ScorerError(f"{scorer}: give either 'steps' or 'target' and 'limit', not both")
        return _climb(read_steps(scorer, steps))
    if target is None or limit is None:
        raise ScorerError(f"{scorer} needs the options 'target' and 'limit', or else 'steps'")
    return _make_line(scorer, target, limit)


def _make_line(scorer: str, target: float, limit: float) -> Callable[[float], float]:
    demand(0 <= target < math.inf, scorer, "target", target, "a finite number, 0 or more")
    wanted = f"a finite number, at least the target ({format_number(target)})"
    demand(target <= limit < math.inf, scorer, "limit", limit, wanted)

    def value(amount: float) -> float:
        if amount <= target:
            return 1.0
        return 0.0 if amount >= limit else (limit - amount) / (limit - target)

    return value


def _climb(steps: Steps) -> Callable[[float], float]:
    return lambda amount: next((value for most, value in steps if amount <= most), 0.0)


def read_steps(scorer: str, steps: Steps) -> Steps:
    """The steps by rising amount, refused where they make no sense."""
    fits = all(0 <= amount < math.inf and 0 <= value <= 1 for amount, value in steps)
    demand(bool(steps) and fits, scorer, "steps", steps, _PAIRS)
    single = len({amount for amount, _ in steps}) == len(steps)
    demand(single, scorer, "steps", steps, "one value for each amount")
    return sorted(steps)


def describe_bounds(
    target: float | None, limit: float | None, steps: Steps | None, write: Callable[[float], str]
) -> str:
    """Describe the bounds of a value, for its reason."""
    if steps is not None:
        pairs = (f"{write(amount)}: {format_value(value)}" for amount, value in sorted(steps))
        return f"(steps {', '.join(pairs)})"
    return (
        "" if target is None or limit is None else f"(target {write(target)}, limit {write(limit)})"
    )
