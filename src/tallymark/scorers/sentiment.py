"""`sentiment`: are the words of the answer friendly?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand_texts

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def sentiment(
    positive: Sequence[str] = ("great", "excellent", "good", "helpful", "thanks"),
    negative: Sequence[str] = ("bad", "terrible", "wrong", "error", "fail"),
) -> Callable[[EvalContext], Score]:
    """Positive / (positive + negative), the words of each list found in the output; 0.5 if none.

    A word counts once, in any case, also inside another word: "failed" has "fail".
    """
    demand_texts("sentiment", "positive", positive)
    demand_texts("sentiment", "negative", negative)
    good = [word.lower() for word in positive]
    bad = [word.lower() for word in negative]

    def score(ctx: EvalContext) -> Score:
        output = ctx.output_text.lower()
        ups = len([word for word in good if word in output])
        downs = len([word for word in bad if word in output])
        if ups + downs == 0:
            return Score(0.5, "Neutral sentiment")
        value = ups / (ups + downs)
        reason = f"Sentiment: {'positive' if value > 0.5 else 'negative'}"
        return Score(value, reason, {"positive_count": ups, "negative_count": downs})

    return score
