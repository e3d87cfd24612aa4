"""`tool_arguments`: were the tools called with the right arguments?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.bounded_json import read_json
from tallymark.scorers.expectations import make_missing_score, read_tool_calls
from tallymark.scorers.json_comparison import is_same
from tallymark.scoring import Score, configurable
from tallymark.scoring.score import show_value
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext
    from tallymark.traces import Span

Arguments = dict[str, Any]


@configurable(blocking=False)
def tool_arguments(exact_keys: bool = False) -> Callable[[EvalContext], Score]:
    """Mean over the expected calls of: arguments that are equal / arguments expected.

    Expected calls without `arguments` are not looked at. Each is compared with the call of the
    same tool that fits best and is not yet taken, and gives 0 when there is none. `exact_keys`
    counts arguments that were not expected as wrong ones.
    """

    def score(ctx: EvalContext) -> Score:
        expected = _read_expected_calls(ctx)
        if isinstance(expected, Score):
            return expected
        names = {name for name, _ in expected}
        calls = [
            (name, _read_arguments(call))
            for call in read_tool_calls(ctx)
            if (name := call.tool_name or call.name) in names
        ]
        total = 0.0
        issues: list[str] = []
        for name, wanted in expected:
            share, wrong = _take_best(name, wanted, calls, exact_keys)
            total += share
            issues += wrong
        reason = list_some(issues, between="; ") if issues else "All expected arguments were given"
        return Score(total / len(expected), reason)

    return score


def _read_expected_calls(ctx: EvalContext) -> list[tuple[str, Arguments]] | Score:
    expected = [
        (str(call["name"]), call["arguments"])
        for call in ctx.expected.tool_calls or ()
        if not isinstance(call, str) and call.get("arguments") is not None
    ]
    for name, wanted in expected:
        if not isinstance(wanted, dict):
            said = f"the expected arguments of {name} are {show_value(wanted)}, not a mapping"
            return Score.failed(f"tool_arguments: {said}")
    return expected or make_missing_score("tool_arguments", "expected.tool_calls with arguments")


def _take_best(
    name: str, wanted: Arguments, calls: list[tuple[str, Arguments | None]], exact_keys: bool
) -> tuple[float, list[str]]:
    """Take the call that fits best out of `calls`: its share of right arguments, and the issues."""
    rated = [
        (*_compare_arguments(wanted, given, exact_keys), place)
        for place, (called, given) in enumerate(calls)
        if called == name
    ]
    if not rated:
        return 0.0, [f"{name}: not called"]
    share, wrong, place = max(rated, key=lambda each: each[0])
    del calls[place]
    return share, [f"{name}: {issue}" for issue in wrong]


def _read_arguments(call: Span) -> Arguments | None:
    """The arguments of a call; None when its input is not a JSON object."""
    text = call.tool_input or call.input
    try:
        given = read_json(text) if text else {}
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def _compare_arguments(
    wanted: Arguments, given: Arguments | None, exact_keys: bool
) -> tuple[float, list[str]]:
    """The share of arguments that are right, and what is wrong with the others."""
    if given is None:
        return 0.0, ["input is not a JSON object"]
    wrong = [
        f"{key} {'differs' if key in given else 'is missing'}"
        for key, value in wanted.items()
        if key not in given or not is_same(value, given[key])
    ]
    right = len(wanted) - len(wrong)
    if exact_keys:
        wrong += [f"{key} is not expected" for key in given if key not in wanted]
    total = right + len(wrong)
    return (right / total if total else 1.0), wrong
