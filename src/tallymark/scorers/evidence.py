"""What scorers that hand a trace on to a judge or another library read from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallymark.scorers.json_text import read_json
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext
    from tallymark.traces import Span


def write_as_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return (
        value if isinstance(value, str) else json.dumps(make_json_safe(value), ensure_ascii=False)
    )


def find_retrieved(ctx: EvalContext) -> list[str]:
    """What each retrieval of the trace brought, in order."""
    found = (
        _choose_first(span.output, span.tool_output) for span in ctx.trace.of_type("retrieval")
    )
    return [text for text in found if text]


def find_tool_name(span: Span) -> str:
    """The name of the tool that a tool span called."""
    return span.tool_name or span.name


def read_tool_arguments(span: Span) -> dict[str, Any]:
    """The arguments of a tool call; what is not a JSON object stands under `input`."""
    text = _choose_first(span.tool_input, span.input)
    if not text:
        return {}
    try:
        given = read_json(text)
    except ValueError:
        given = text
    return given if isinstance(given, dict) else {"input": given}


def read_tool_result(span: Span) -> str:
    """What a tool call gave back."""
    return _choose_first(span.tool_output, span.output)


def _choose_first(*texts: str | None) -> str:
    return next((text for text in texts if text), "")
