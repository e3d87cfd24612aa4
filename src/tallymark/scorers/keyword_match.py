"""`keyword_match`: how many of the keywords does the answer use?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand, demand_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def keyword_match(
    keywords: list[str], case_sensitive: bool = False, min_match: int = 1
) -> Callable[[EvalContext], Score]:
    """Keywords found in the output / keywords; 0 when fewer than `min_match` are found."""
    demand_texts("keyword_match", "keywords", keywords)
    wanted = f"from 1 to the number of keywords ({len(keywords)})"
    demand(1 <= min_match <= len(keywords), "keyword_match", "min_match", min_match, wanted)
    searched = [(word, word if case_sensitive else word.lower()) for word in keywords]

    def score(ctx: EvalContext) -> Score:
        output = ctx.output_text if case_sensitive else ctx.output_text.lower()
        missing = [word for word, needle in searched if needle not in output]
        matched = len(searched) - len(missing)
        return Score(
            matched / len(searched) if matched >= min_match else 0.0,
            f"Matched {matched}/{len(searched)} keywords",
            {"missing": missing},
        )

    return score
