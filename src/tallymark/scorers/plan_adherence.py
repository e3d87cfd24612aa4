"""`plan_adherence`: did the agent keep to the plan?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.errors import NotMeasured
from tallymark.scorers.expectations import make_missing_score
from tallymark.scorers.longest_common_subsequence import longest_common
from tallymark.scoring import Score, configurable
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import demand, demand_texts
from tallymark.text import list_some
from tallymark.traces import SpanType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def plan_adherence(
    plan: list[str] | None = None, penalty: float = 0.5, span_type: SpanType = "tool"
) -> Callable[[EvalContext], Score]:
    """Plan steps done in order / plan steps - penalty * steps not in the plan / steps, at least 0.

    The plan is `plan`, or else expected.plan, or else the names in expected.tool_calls. Steps
    are the spans of `span_type` by tool name or name; doing a planned step again costs nothing.
    Done in order means: the longest common subsequence of plan and steps.
    """
    demand(0 <= penalty <= 1, "plan_adherence", "penalty", penalty, "from 0 to 1")
    if plan is not None:
        demand_texts("plan_adherence", "plan", plan)

    def score(ctx: EvalContext) -> Score:
        planned = _read_plan(ctx) if plan is None else plan
        if isinstance(planned, Score):
            return planned
        steps = [
            span.tool_name or span.name for span in ctx.trace.spans if span.span_type == span_type
        ]
        if not steps and not ctx.trace.generations:
            raise NotMeasured(f"the trace has no {span_type} spans and no model call")
        if not steps:
            return Score(0.0, "No steps found")
        done = longest_common(planned, steps)
        others = [step for step in steps if step not in planned]
        value = done / len(planned) - penalty * len(others) / len(steps)
        beside = f"; not in the plan: {list_some(others)}" if others else ""
        return Score(max(0.0, value), f"{done} of {len(planned)} steps done in order{beside}")

    return score


def _read_plan(ctx: EvalContext) -> list[str] | Score:
    plan = ctx.expected.get("plan")
    if plan is None:
        plan = ctx.expected.tool_names
    if not plan:
        return make_missing_score(
            "plan_adherence", "a plan (`plan`, expected.plan or expected.tool_calls)"
        )
    if not isinstance(plan, list) or not all(isinstance(step, str) for step in plan):
        return Score.failed(
            f"plan_adherence: expected.plan is {show_value(plan)}, not a list of step names"
        )
    return plan
