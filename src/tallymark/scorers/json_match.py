"""`json_match`: is the answer the expected data?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.documents.bounded_json import read_json
from tallymark.scorers.expectations import make_missing_score
from tallymark.scorers.json_comparison import JsonComparison
from tallymark.scoring import Score, configurable
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext


@configurable(blocking=False)
def json_match(exact_keys: bool = False, fenced: bool = False) -> Callable[[EvalContext], Score]:
    """Leaves of expected.output that the output has in the same place / leaves compared.

    A leaf is a text, number, truth value, null, or an empty list or object. More list items
    than expected are differences; more keys only with `exact_keys`. `fenced` takes the JSON out
    of the first ``` block. expected.output is data, or JSON text; output that is no JSON is 0.
    """

    def score(ctx: EvalContext) -> Score:
        wanted = ctx.expected.output
        if wanted is None:
            return make_missing_score("json_match", "expected.output")
        if isinstance(wanted, str):
            try:
                wanted = read_json(wanted)
            except ValueError as error:
                return Score.failed(f"json_match: expected.output is not valid JSON: {error}")
        output = ctx.output_text
        if not output.strip():
            return Score(0.0, "Empty output")
        try:
            got = read_json(output, fenced=fenced)
        except ValueError as error:
            return Score(0.0, f"Output is not valid JSON: {error}")
        found = JsonComparison(wanted, got, exact_keys=exact_keys)
        wrong = f" (differs at {list_some(found.differs_at)})" if found.differs_at else ""
        reason = f"{found.matched} of {found.total} values match{wrong}"
        return Score(found.matched / found.total, reason)

    return score
