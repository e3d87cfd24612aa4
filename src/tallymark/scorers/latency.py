"""`latency`: was the agent quick enough?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.budget_score import Steps, describe_bounds, make_budget_score
from tallymark.scoring import Score, configurable
from tallymark.text import format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def latency(
    target: float | None = None, limit: float | None = None, steps: Steps | None = None
) -> Callable[[EvalContext], Score]:
    """1 up to `target` seconds, falling linearly to 0 at `limit` seconds; or by `steps`.

    The time is the trace's duration; a duration of 0 was not measured, so the score fails.
    """
    value = make_budget_score("latency", target, limit, steps)
    bounds = describe_bounds(target, limit, steps, lambda seconds: f"{format_number(seconds)} s")

    def score(ctx: EvalContext) -> Score:
        seconds = ctx.trace.duration_ms / 1000
        if not seconds:
            return Score.failed("latency is unknown: the trace has no duration")
        return Score(
            value(seconds), f"Took {format_seconds(seconds)} {bounds}", {"seconds": seconds}
        )

    return score
