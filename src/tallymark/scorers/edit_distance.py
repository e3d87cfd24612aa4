"""`edit_distance`: how few keystrokes lie between the answer and the expected one?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.dimensions.primitives import levenshtein
from tallymark.scorers.expectations import read_expected_texts
from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def edit_distance(
    ignore_case: bool = False, strip: bool = True, max_length: int = 10_000
) -> Callable[[EvalContext], Score]:
    """1 - Levenshtein distance / length of the longer text, between output and expected.output.

    Where several texts are expected, the nearest counts. Lengths are in characters. A text longer
    than `max_length` is not compared but a failed score, because the time grows with the product
    of the lengths.
    """
    demand(max_length > 0, "edit_distance", "max_length", max_length, "more than 0")

    def tidy(text: str) -> str:
        text = text.strip() if strip else text
        return text.casefold() if ignore_case else text

    def score(ctx: EvalContext) -> Score:
        texts = read_expected_texts(ctx, "edit_distance")
        if isinstance(texts, Score):
            return texts
        output = tidy(ctx.output_text)
        scores = [compare(output, tidy(text)) for text in texts]
        return max(scores, key=lambda each: -1.0 if each.value is None else each.value)

    def compare(output: str, wanted: str) -> Score:
        longer = max(len(output), len(wanted))
        if longer > max_length:
            return Score.failed(
                f"edit_distance: a text has {longer} characters, more than max_length={max_length}"
            )
        if not output and wanted:
            return Score(0.0, "Empty output", {"distance": longer})
        distance = levenshtein(output, wanted)
        value = 1 - distance / longer if longer else 1.0
        return Score(value, f"{distance} edits in {longer} characters", {"distance": distance})

    return score
