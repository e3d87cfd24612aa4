"""`tool_params`: do the tool calls have the parameters that their tools need?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.bounded_json import read_json
from tallymark.scorers.expectations import read_tool_calls
from tallymark.scoring import Score, configurable
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext
    from tallymark.traces import Span


@configurable(blocking=False)
def tool_params(required: dict[str, list[str]] | None = None) -> Callable[[EvalContext], Score]:
    """Valid tool calls / tool calls; 0 when there is none.

    A call is valid when its input is JSON and has each parameter that `required` names for its
    tool; a parameter that is null, false, 0 or empty text counts as missing, as in JavaScript.
    By default, `search` needs `query`.
    """
    needs = {"search": ["query"]} if required is None else required

    def score(ctx: EvalContext) -> Score:
        calls = read_tool_calls(ctx)
        if not calls:
            return Score(0.0, "No tool calls found")
        issues: list[str] = []
        valid = 0
        for call in calls:
            found = _find_issues(call, needs)
            if found:
                issues += found
            else:
                valid += 1
        reason = list_some(issues, between="; ") if issues else "All tool calls valid"
        return Score(valid / len(calls), reason)

    return score


def _find_issues(call: Span, needs: dict[str, list[str]]) -> list[str]:
    name = call.tool_name or call.name
    try:
        params = read_json(call.tool_input) if call.tool_input else {}
    except ValueError:
        return [f"{name}: input is not valid JSON"]
    wanted = needs.get(name)
    if not wanted:
        return []
    given = params if isinstance(params, dict) else {}
    return [f"{name}: missing {key} parameter" for key in wanted if _is_missing(given.get(key))]


def _is_missing(value: Any) -> bool:
    """True for JavaScript's `!value`: empty lists and objects are values."""
    return not value and not isinstance(value, list | dict)
