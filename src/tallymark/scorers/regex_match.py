"""`regex_match`: is a pattern found in the answer?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tallymark.errors import ScorerError
from tallymark.scoring import Score, configurable
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_options import demand
from tallymark.text import BACKSPACE, BACKSPACE_HINT, format_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False, data_type="boolean")
def regex_match(
    pattern: str, ignore_case: bool = False, time_limit: float = 1.0
) -> Callable[[EvalContext], Score]:
    """1 when the pattern is found anywhere in the output, else 0.

    A search that takes longer than `time_limit` seconds is a failed score. Other flags are
    written into the pattern: `(?m)`, `(?s)`, `(?a)`.
    """
    # Python's own `re` cannot be stopped: it holds the interpreter's lock until it is done.
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 (40 ms)

    if "\b" in pattern:
        raise ScorerError(f"regex_match: the option 'pattern': {BACKSPACE}", hint=BACKSPACE_HINT)
    demand(0 < time_limit < math.inf, "regex_match", "time_limit", time_limit, "more than 0")
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError) as error:
        raise ScorerError(
            f"regex_match: the option 'pattern' is {show_value(pattern)}, "
            f"which is not a regular expression: {error}"
        ) from None

    def score(ctx: EvalContext) -> Score:
        try:
            found = compiled.search(ctx.output_text, timeout=time_limit) is not None
        except TimeoutError:
            return Score.failed(
                f"regex_match: the pattern took longer than {format_number(time_limit)} s"
            )
        return Score(1.0, "Pattern matched") if found else Score(0.0, "Pattern not found")

    return score
