"""What a judge is shown of a trace, fenced off: others wrote it, and it may try to persuade."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed
from tallymark.scorers.evidence import (
    find_retrieved,
    find_tool_name,
    read_tool_arguments,
    read_tool_result,
    write_as_text,
)
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallymark.scorers.judging.rubric import ShownPart
    from tallymark.scoring import EvalContext


def collect_material(ctx: EvalContext, shows: Iterable[ShownPart]) -> tuple[str, str]:
    """The parts of a trace as one text, and the mark in its fences.

    The mark is a hash of the parts, so no part can hold it and close its own fence.
    """
    parts = {_TITLES[part]: str(make_json_safe(_READERS[part](ctx))) for part in shows}
    mark = hashlib.sha256("\0".join(parts.values()).encode()).hexdigest()[:16]
    fenced = (
        f"<<< {title} {mark}\n{text or '(empty)'}\n>>> {title} {mark}"
        for title, text in parts.items()
    )
    return "\n\n".join(fenced), mark


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
    return "\n".join(calls) or "(no tool was called)"


_TITLES: dict[ShownPart, str] = {
    "input": "REQUEST",
    "output": "ANSWER",
    "expected": "REFERENCE",
    "context": "CONTEXT",
    "tools": "TOOL CALLS",
}
_READERS: dict[ShownPart, Callable[[EvalContext], str]] = {
    "input": lambda ctx: ctx.input,
    "output": lambda ctx: ctx.output,
    "expected": _show_expected,
    "context": _show_context,
    "tools": _show_tools,
}
