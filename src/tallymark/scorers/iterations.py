"""`iterations`: did the agent get by with few model calls?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.budget_score import Steps, describe_bounds, make_budget_score
from tallymark.scoring import Score, configurable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def iterations(
    target: int | None = None, limit: int | None = None, steps: Steps | None = None
) -> Callable[[EvalContext], Score]:
    """1 up to `target` model calls, falling linearly to 0 at `limit` model calls; or by `steps`.

    A trace without any model call is a failed score.
    """
    value = make_budget_score("iterations", target, limit, steps)
    bounds = describe_bounds(target, limit, steps, "{:g}".format)

    def score(ctx: EvalContext) -> Score:
        calls = len(ctx.trace.generations)
        if not calls:
            return Score.failed("iterations are unknown: the trace has no model call")
        return Score(value(calls), f"Made {calls} model calls {bounds}", {"model_calls": calls})

    return score
