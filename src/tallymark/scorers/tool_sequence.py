"""`tool_sequence`: were the tools called in the right order?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tallymark.scorers.budget_score import Steps
from tallymark.scorers.expectations import find_unpaired, read_called_tools, read_expected_tools
from tallymark.scorers.longest_common_subsequence import longest_common
from tallymark.scorers.tool_names import Categories, make_grading, make_naming
from tallymark.scoring import Score, configurable
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext

Mode = Literal["similar", "exact", "in_order", "any_order"]


@configurable(blocking=False)
def tool_sequence(
    mode: Mode = "similar",
    categories: Categories | None = None,
    extra_penalty: float = 0.0,
    steps: Steps | None = None,
) -> Callable[[EvalContext], Score]:
    """Longest common subsequence of expected and called tools / length of the longer sequence.

    The other modes give 1 or 0: `exact` wants the same calls in the same order, `in_order` the
    expected ones in order with others between, `any_order` the expected ones in any order.
    `categories`, `steps` and `extra_penalty`, for each call beyond the expected ones, are as in
    `tool_selection`.
    """
    rename = make_naming("tool_sequence", categories)
    grade = make_grading("tool_sequence", steps, extra_penalty)

    def score(ctx: EvalContext) -> Score:
        wanted = read_expected_tools(ctx, "tool_sequence")
        if isinstance(wanted, Score):
            return wanted
        wanted, called = rename(wanted), rename(read_called_tools(ctx))
        extra = len(find_unpaired(wanted, called)[1]) if extra_penalty else 0
        value = grade(_value(mode, wanted, called), extra)
        if value == 1.0:
            return Score(value, f"Called {_join_names(called)}, as expected")
        return Score(value, f"Called {_join_names(called)}; expected {_join_names(wanted)}")

    return score


def _value(mode: Mode, wanted: list[str], called: list[str]) -> float:
    if mode == "exact":
        return float(wanted == called)
    if mode == "any_order":
        return float(not find_unpaired(wanted, called)[0])
    common = longest_common(wanted, called)
    if mode == "in_order":
        return float(common == len(wanted))
    longer = max(len(wanted), len(called))
    return common / longer if longer else 1.0


def _join_names(names: list[str]) -> str:
    return list_some(names, between=" > ") or "no tool"
