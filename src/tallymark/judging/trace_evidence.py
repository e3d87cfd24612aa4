"""The parts of a trace that a judge, or another library, sees.

For a judge they are fenced off, because they are not trusted: an answer may contain instructions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallymark.documents.bounded_json import read_json
from tallymark.errors import WorkFailed
from tallymark.judging.judge_dialogue import fence
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallymark.judging.judge_dialogue import FencedText
    from tallymark.judging.rubric import ShownPart
    from tallymark.scoring import EvalContext
    from tallymark.traces import Span


def write_as_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return (
        value if isinstance(value, str) else json.dumps(make_json_safe(value), ensure_ascii=False)
    )


def find_retrieved(ctx: EvalContext) -> list[str]:
    """Results of the trace's retrievals, in order."""
    found = (
        _choose_first(span.output, span.tool_output) for span in ctx.trace.of_type("retrieval")
    )
    return [text for text in found if text]


def find_tool_name(span: Span) -> str:
    """The name of the tool that a tool span called."""
    return span.tool_name or span.name


def read_tool_arguments(span: Span) -> dict[str, Any]:
    """The arguments of a tool call; input that is not a JSON object is under the key `input`."""
    text = _choose_first(span.tool_input, span.input)
    if not text:
        return {}
    try:
        given = read_json(text)
    except ValueError:
        given = text
    return given if isinstance(given, dict) else {"input": given}


def read_tool_result(span: Span) -> str:
    """The result of a tool call."""
    return _choose_first(span.tool_output, span.output)


def _choose_first(*texts: str | None) -> str:
    return next((text for text in texts if text), "")


def collect_material(ctx: EvalContext, shows: Iterable[ShownPart]) -> FencedText:
    """The parts of a trace that a judge is shown, fenced off."""
    return fence({_TITLES[part]: str(make_json_safe(_READERS[part](ctx))) for part in shows})


def _show_expected(ctx: EvalContext) -> str:
    expected = ctx.expected
    lines = [] if expected.output is None else [write_as_text(expected.output)]
    lines += [f"It must contain: {text}" for text in expected.output_contains or ()]
    if not lines:
        raise WorkFailed("the rubric shows the expected answer, but the test states none")
    return "\n".join(lines)


def _show_context(ctx: EvalContext) -> str:
    found = find_retrieved(ctx)
    if not found:
        raise WorkFailed("the rubric shows retrieved context, but the trace has no retrieval")
    return "\n\n".join(found)


def _show_tools(ctx: EvalContext) -> str:
    calls = []
    for span in ctx.trace.tool_calls:
        call = {"tool": find_tool_name(span), "arguments": read_tool_arguments(span)}
        outcome = {"error": span.error or "failed"} if span.failed else {}
        calls.append(write_as_text({**call, "result": read_tool_result(span), **outcome}))
    if not calls and not ctx.trace.generations:
        raise WorkFailed("the rubric shows tool calls, but the trace has no model call and no tool")
    return "\n".join(calls) or "(no tool was called)"


_TITLES: dict[ShownPart, str] = {
    "input": "REQUEST",
    "output": "ANSWER",
    "expected": "REFERENCE",
    "context": "CONTEXT",
    "tools": "TOOL CALLS",
}
_READERS: dict[ShownPart, Callable[[EvalContext], str]] = {
    "input": lambda ctx: ctx.input_text,
    "output": lambda ctx: ctx.output_text,
    "expected": _show_expected,
    "context": _show_context,
    "tools": _show_tools,
}
