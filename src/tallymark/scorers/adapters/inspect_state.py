"""Inspect's scorers, and the state that they see, made of our context.

Imports Inspect, so it is itself imported late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ModelName,
    ModelOutput,
)
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState
from inspect_ai.tool import ToolCall, ToolCallError
from inspect_ai.util import registry_create, registry_info

from tallymark.errors import ScorerError
from tallymark.importing import is_async
from tallymark.judging.trace_evidence import (
    find_tool_name,
    read_tool_arguments,
    read_tool_result,
    write_as_text,
)
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext
    from tallymark.traces import Span


def make_scorer(given: Any, options: dict[str, Any]) -> Any:
    """A scorer of Inspect from its name or function with options; one made before as it is."""
    if is_async(given):
        if options:
            raise ScorerError(f"options ({', '.join(options)}) were given for a scorer made before")
        return given
    try:
        if isinstance(given, str):
            return registry_create("scorer", given, **options)
        return given(**options)
    except Exception as error:  # noqa: BLE001 (an unknown name, an option refused)
        raise ScorerError(f"Inspect cannot make the scorer {show_value(given)}: {error}") from None


def find_name(thing: Any) -> str:
    """The name that a scorer is registered under, or else its function's."""
    try:
        return str(registry_info(thing).name.rpartition("/")[2])
    except ValueError:  # made without Inspect's decorator
        return str(getattr(thing, "__name__", type(thing).__name__))


def make_state(ctx: EvalContext) -> TaskState:
    """The trace as the state that Inspect's solvers would have left."""
    wanted = ctx.expected.output
    texts = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    model = next((span.model for span in reversed(ctx.trace.generations) if span.model), "unknown")
    full = model if "/" in model else f"unknown/{model}"
    return TaskState(
        model=ModelName(full),
        sample_id=ctx.trace.trace_id,
        epoch=1,
        input=ctx.input_text,
        messages=_make_messages(ctx),
        target=Target([write_as_text(each) for each in texts]),
        choices=ctx.metadata.get("choices"),
        output=ModelOutput.from_content(full, ctx.output_text),
        completed=True,
        metadata=ctx.metadata,
    )


def _make_messages(ctx: EvalContext) -> list[ChatMessage]:
    """The conversation: the request, the model's words with its tool calls, the tools' results."""
    messages: list[ChatMessage] = [ChatMessageUser(content=ctx.input_text)]
    asking: ChatMessageAssistant | None = None
    for span in ctx.spans:
        if span.span_type == "generation":
            asking = ChatMessageAssistant(content=span.output, model=span.model)
            messages.append(asking)
        elif span.span_type == "tool":
            if asking is None:
                asking = ChatMessageAssistant(content="")
                messages.append(asking)
            messages.append(_add_tool_call(span, asking, f"call_{len(messages)}"))
    return messages


def _add_tool_call(span: Span, asking: Any, identity: str) -> ChatMessage:
    call = ToolCall(id=identity, function=find_tool_name(span), arguments=read_tool_arguments(span))
    asking.tool_calls = [*(asking.tool_calls or ()), call]
    error = ToolCallError("unknown", span.error or "failed") if span.failed else None
    return ChatMessageTool(
        content=read_tool_result(span), tool_call_id=identity, function=call.function, error=error
    )
