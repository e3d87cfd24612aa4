"""`contains`: does the answer have the texts that it must have?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tallymark.scorers.expectations import make_missing_score
from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand_texts
from tallymark.text import quote_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def contains(
    values: list[str] | None = None,
    mode: Literal["all", "any"] = "all",
    ignore_case: bool = False,
) -> Callable[[EvalContext], Score]:
    """Texts found in the output / texts; with mode="any", 1 when one of them is found, else 0.

    The texts are `values`, or else expected.output_contains and, found in any case, those of
    expected.output_icontains. `threshold=1` passes only outputs that have them all.
    """
    if values is not None:
        demand_texts("contains", "values", values)

    def score(ctx: EvalContext) -> Score:
        loose: list[str] = []
        if values is None:
            texts = ctx.expected.output_contains or []
            loose = ctx.expected.extra.get("output_icontains") or []
        else:
            texts = values
        if not texts and not loose:
            return make_missing_score("contains", "expected.output_contains or the option `values`")
        output = ctx.output_text
        if ignore_case:
            texts, loose = [], [*texts, *loose]
        absent = [text for text in texts if text not in output]
        if loose:
            folded = output.casefold()
            absent += [text for text in loose if text.casefold() not in folded]
            texts = [*texts, *loose]
        found = len(texts) - len(absent)
        if found == 0 and not output.strip():
            return Score(0.0, "Empty output")
        value = found / len(texts) if mode == "all" else float(found > 0)
        without = f" (missing: {quote_some(absent)})" if absent else ""
        return Score(value, f"Found {found} of {len(texts)}{without}")

    return score
