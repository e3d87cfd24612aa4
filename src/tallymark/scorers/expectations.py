"""What a test expects, or the failed score that says what is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tallymark.scoring import Score
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext


def make_missing_score(scorer: str, what: str) -> Score:
    """The score where there is nothing to measure against."""
    return Score.failed(f"{scorer} needs {what}, and none was given")


def read_expected_text(ctx: EvalContext, scorer: str) -> str | Score:
    """`expected.output` as text; a number or a truth value as JSON writes it."""
    wanted = ctx.expected.output
    if isinstance(wanted, str):
        return wanted
    if wanted is None:
        return make_missing_score(scorer, "expected.output")
    if isinstance(wanted, bool | int | float):
        return json.dumps(wanted)
    return Score.failed(
        f"{scorer} compares texts, and expected.output is {show_value(wanted)}; "
        "for data, use json_match"
    )


def read_expected_tools(ctx: EvalContext, scorer: str) -> list[str] | Score:
    """The names of the expected tools, in order."""
    names = ctx.expected.tool_names
    return make_missing_score(scorer, "expected.tool_calls") if names is None else names


def find_unpaired(wanted: list[str], called: list[str]) -> tuple[list[str], list[str]]:
    """The names that only one side has, repeats counted: (missing, unexpected)."""
    unexpected = called.copy()
    absent = []
    for name in wanted:
        if name in unexpected:
            unexpected.remove(name)
        else:
            absent.append(name)
    return absent, unexpected
