"""`cost`: was the agent cheap enough?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.budget_score import Steps, describe_bounds, make_budget_score
from tallymark.scoring import Score, configurable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def cost(
    target: float | None = None, limit: float | None = None, steps: Steps | None = None
) -> Callable[[EvalContext], Score]:
    """1 up to `target` US dollars, falling linearly to 0 at `limit` US dollars; or by `steps`.

    The cost is the sum over the spans that state one; when none does, the score is a failed one.
    """
    value = make_budget_score("cost", target, limit, steps)
    bounds = describe_bounds(target, limit, steps, lambda dollars: f"${dollars:g}")

    def score(ctx: EvalContext) -> Score:
        dollars = ctx.trace.cost
        if dollars is None:
            return Score.failed("cost is unknown: no span of the trace states one")
        return Score(value(dollars), f"Cost ${dollars:.4g} {bounds}", {"cost": dollars})

    return score
