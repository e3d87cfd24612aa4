"""`word_count`: is the answer neither too short nor too long?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.scoring import Score, configurable
from tallymark.scoring.scorer_options import demand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext

# JavaScript's white space, and the characters on which `str.split` disagrees with it.
_WORD = re.compile("[^\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_DISAGREE = "\x1c\x1d\x1e\x1f\x85\ufeff"


@configurable(blocking=False)
def word_count(low: int = 20, high: int = 200, fade: int = 300) -> Callable[[EvalContext], Score]:
    """Words / low below `low`, 1 from `low` to `high`, then 1 - (words - high) / fade, at least 0.

    Words are what white space separates, as JavaScript understands it.
    """
    demand(low >= 0, "word_count", "low", low, "0 or more")
    demand(high >= low, "word_count", "high", high, f"at least low ({low})")
    demand(fade > 0, "word_count", "fade", fade, "more than 0")

    def score(ctx: EvalContext) -> Score:
        words = _count_words(ctx.output_text)
        if words < low:
            value = words / low
        elif words <= high:
            value = 1.0
        else:
            value = max(0.0, 1 - (words - high) / fade)
        return Score(value, f"Response has {words} words", {"word_count": words})

    return score


def _count_words(text: str) -> int:
    for char in _DISAGREE:
        if char in text:
            return len(_WORD.findall(text))
    return len(text.split())
