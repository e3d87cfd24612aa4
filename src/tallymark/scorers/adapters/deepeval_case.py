"""The test case that DeepEval's metrics see, made of our context.

Imports DeepEval, so it is itself imported late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepeval.test_case import LLMTestCase, ToolCall

from tallymark.judging.trace_evidence import (
    find_retrieved,
    find_tool_name,
    read_tool_arguments,
    read_tool_result,
    write_as_text,
)

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext


def make_test_case(ctx: EvalContext) -> LLMTestCase:
    """All that a metric of single turns may look at."""
    expected, context = ctx.expected, ctx.metadata.get("context")
    found_context: list[Any] = find_retrieved(ctx)
    return LLMTestCase(
        name=ctx.trace.name or None,
        input=ctx.input_text,
        actual_output=ctx.trace.last_output,
        expected_output=None if expected.output is None else write_as_text(expected.output),
        context=[context] if isinstance(context, str) else context,
        retrieval_context=found_context or None,
        tools_called=_list_tools_called(ctx),
        expected_tools=_list_expected_tools(ctx),
        metadata=ctx.metadata,
        token_cost=ctx.trace.cost,
        input_token_count=ctx.trace.input_tokens,
        output_token_count=ctx.trace.output_tokens,
        completion_time=ctx.trace.duration_ms / 1000,
    )


def _list_tools_called(ctx: EvalContext) -> list[ToolCall] | None:
    """The tools called; None for a trace that does not record them: no tool call, no model call."""
    if not ctx.trace.tool_calls and not ctx.trace.generations:
        return None
    return [
        ToolCall(
            name=find_tool_name(span),
            input_parameters=read_tool_arguments(span),
            output=read_tool_result(span) or None,
        )
        for span in ctx.trace.tool_calls
    ]


def _list_expected_tools(ctx: EvalContext) -> list[ToolCall] | None:
    if ctx.expected.tool_calls is None:
        return None
    stated: list[dict[str, Any]] = [
        {"name": call} if isinstance(call, str) else call for call in ctx.expected.tool_calls
    ]
    return [
        ToolCall(name=str(call["name"]), input_parameters=call.get("arguments")) for call in stated
    ]
