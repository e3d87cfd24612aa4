"""`cost`: was the agent cheap enough?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.budget_score import Steps, describe_bounds, make_budget_score
from tallymark.scoring import Score, configurable
from tallymark.text import format_money, list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def cost(
    target: float | None = None, limit: float | None = None, steps: Steps | None = None
) -> Callable[[EvalContext], Score]:
    """1 up to `target` US dollars, falling linearly to 0 at `limit` US dollars; or by `steps`.

    The cost is the sum over the spans that state one. The score fails when none does, or when only
    some of the model calls that state their tokens have a price.
    """
    value = make_budget_score("cost", target, limit, steps)
    bounds = describe_bounds(target, limit, steps, format_money)

    def score(ctx: EvalContext) -> Score:
        dollars = ctx.trace.cost
        if dollars is None:
            return Score.failed("cost is unknown: no span of the trace states one")
        calls = ctx.trace.generations
        unpriced = [call for call in calls if call.cost is None and call.tokens is not None]
        if unpriced and any(call.cost is not None for call in calls):
            models = list_some(sorted({call.model or call.name for call in unpriced}))
            return Score.failed(f"cost is unknown: the price of {models} is not known")
        return Score(value(dollars), f"Cost {format_money(dollars)} {bounds}", {"cost": dollars})

    return score
