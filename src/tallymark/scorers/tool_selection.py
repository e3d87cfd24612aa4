"""`tool_selection`: were the right tools called?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tallymark.scorers.budget_score import Steps
from tallymark.scorers.expectations import find_unpaired, read_called_tools, read_expected_tools
from tallymark.scorers.tool_names import Categories, make_grading, make_naming
from tallymark.scoring import Score, configurable
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def tool_selection(
    metric: Literal["f1", "recall", "precision"] = "f1",
    count_repeats: bool = False,
    categories: Categories | None = None,
    extra_penalty: float = 0.0,
    steps: Steps | None = None,
) -> Callable[[EvalContext], Score]:
    """f1 = 2 * hits / (expected + called); recall = hits / expected; precision = hits / called.

    A hit is an expected tool that was called. Each tool counts once, or as often as it is
    expected and called with `count_repeats`. Where no call is expected, recall is 1, and the
    others are 1 if none was made, else 0; where calls are expected and none was made, all are 0.
    Tools of one of the `categories`, such as {"search": ["google", "bing"]}, count as the same
    tool. `steps` gives values to shares, such as [[0.5, 0.3], [1, 1]]: 0.3 from one half on, 1 for
    all. `extra_penalty` is taken off for each tool that was not expected.
    """
    rename = make_naming("tool_selection", categories)
    grade = make_grading("tool_selection", steps, extra_penalty)

    def score(ctx: EvalContext) -> Score:
        wanted = read_expected_tools(ctx, "tool_selection")
        if isinstance(wanted, Score):
            return wanted
        called = read_called_tools(ctx)
        if categories:
            wanted, called = rename(wanted), rename(called)
        if count_repeats:
            absent, unexpected = find_unpaired(wanted, called)
        else:
            wanted, called = list(dict.fromkeys(wanted)), list(dict.fromkeys(called))
            absent = [name for name in wanted if name not in called]
            unexpected = [name for name in called if name not in wanted]
        hits, expected, made = len(wanted) - len(absent), len(wanted), len(called)
        values = {
            "f1": 2 * hits / (expected + made) if expected + made else 1.0,
            "recall": hits / expected if expected else 1.0,
            "precision": hits / made if made else float(not wanted),
        }
        value = grade(values[metric], len(unexpected))
        return Score(value, _reason(absent, unexpected), values)

    return score


def _reason(absent: list[str], unexpected: list[str]) -> str:
    parts = []
    if absent:
        parts.append(f"Not called: {list_some(absent)}")
    if unexpected:
        parts.append(f"Not expected: {list_some(unexpected)}")
    return "; ".join(parts) or "Exactly the expected tools were called"
