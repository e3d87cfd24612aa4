"""`from_inspect`: a scorer of Inspect (match, includes, f1, model_graded_qa, ...)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallymark.scorers.adapters.library_scorer import (
    choose_wrapped,
    import_library,
    pick_result,
    wrap_scorer,
)
from tallymark.scoring import Score, Scorer
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext

_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""Inspect's own `value_to_float` gives 0 for any other word; here that is refused."""


def from_inspect(
    scorer: Any = None, *, name: str | None = None, key: str | None = None, **options: Any
) -> Scorer:
    """The value that an Inspect scorer gives to the trace; C, P, I and N are 1, 0.5, 0 and 0.

    `scorer` is what `match()` or your own `@scorer` function returns, or that function or its
    registered name (`"match"`) with its options. The target is expected.output, a list of texts
    for more than one. `key` picks one of the values of a scorer that gives several. What Inspect
    calls unscored is a failed score.
    """
    given, name = choose_wrapped(scorer, name, "from_inspect")
    import_library("inspect_ai.scorer", "inspect-ai")
    from tallymark.scorers.adapters.inspect_state import (  # noqa: PLC0415 (heavy)
        find_name,
        make_scorer,
        make_state,
    )

    thing = make_scorer(given, options)
    thing_name = find_name(thing)

    async def evaluate(ctx: EvalContext) -> Score:
        state = make_state(ctx)
        return _read_score(await thing(state, state.target), thing_name, key)

    return wrap_scorer(
        evaluate,
        thing,
        thing_name=thing_name,
        package="inspect-ai",
        name=name,
        settings={**getattr(thing, "__registry_params__", {}), "key": key},
    )


def _read_score(result: Any, name: str, key: str | None) -> Score:
    if result is None:
        return Score.failed(f"{name} gave no score")
    metadata = {
        **(result.metadata or {}),
        "value": result.value,
        "answer": result.answer,
        "reason": result.reason,
    }
    reason = result.explanation or ""
    value = result.value
    if isinstance(value, Mapping):
        value = pick_result(value, key, name)
    if isinstance(value, Score):
        return Score.failed(str(value.error), reason=reason, metadata=metadata)
    if isinstance(value, float) and math.isnan(value):
        return Score.failed(f"{name} left it unscored", reason=reason, metadata=metadata)
    if isinstance(value, str):
        value = _read_grade(value)
    if not isinstance(value, int | float):
        return Score.failed(
            f"{name} gave {show_value(result.value)}, not a number", metadata=metadata
        )
    return Score(value, reason, metadata)


def _read_grade(word: str) -> float | None:
    """The number of one of Inspect's grades, of yes or no, or of digits; None for other words."""
    known = _GRADES.get(word, _GRADES.get(word.lower()))
    try:
        return float(word) if known is None else known
    except ValueError:
        return None
