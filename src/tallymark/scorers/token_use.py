"""`token_use`: did the agent get by with few tokens?"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from tallymark.scorers.budget_score import Steps, describe_bounds, make_budget_score
from tallymark.scoring import Score, configurable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext

_COUNTS = {"total": "tokens", "input": "input_tokens", "output": "output_tokens"}


@configurable(blocking=False)
def token_use(
    target: int | None = None,
    limit: int | None = None,
    count: Literal["total", "input", "output"] = "total",
    steps: Steps | None = None,
) -> Callable[[EvalContext], Score]:
    """1 up to `target` tokens, falling linearly to 0 at `limit` tokens; or by `steps`.

    The tokens are the sum over the spans that state them; when none does, the score is a
    failed one. `count` picks input, output or both.
    """
    value = make_budget_score("token_use", target, limit, steps)
    bounds = describe_bounds(target, limit, steps, "{:.15g}".format)
    what = "tokens" if count == "total" else f"{count} tokens"
    counted: Callable[[object], int | None] = attrgetter(_COUNTS[count])

    def score(ctx: EvalContext) -> Score:
        tokens = counted(ctx.trace)
        if tokens is None:
            return Score.failed(f"token use is unknown: no span of the trace states its {what}")
        return Score(value(tokens), f"Used {tokens} {what} {bounds}", {"tokens": tokens})

    return score
