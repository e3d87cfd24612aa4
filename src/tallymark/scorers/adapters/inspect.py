"""`from_inspect`: a scorer of Inspect (match, includes, f1, model_graded_qa, ...)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError
from tallymark.scorers.adapters.wrapping import chosen, imported, picked, wrapped
from tallymark.scorers.evidence import as_text, tool_arguments, tool_name, tool_result
from tallymark.scoring import Score, Scorer
from tallymark.scoring.score import shown

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage
    from inspect_ai.solver import TaskState

    from tallymark.scoring import EvalContext
    from tallymark.traces import Span

_WORDS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""As Inspect's own `value_to_float`, which gives 0 for any other word; here that is refused."""


def from_inspect(
    scorer: Any = None, *, name: str | None = None, key: str | None = None, **options: Any
) -> Scorer:
    """The value that an Inspect scorer gives to the trace; C, P, I and N are 1, 0.5, 0 and 0.

    `scorer` is what `match()` or your own `@scorer` function returns, or that function or its
    registered name (`"match"`) with its options. The target is expected.output, a list of texts
    for more than one. `key` picks one of the values of a scorer that gives several. What Inspect
    calls unscored is a failed score.
    """
    given, name = chosen(scorer, name, "from_inspect")
    imported("inspect_ai.scorer", "inspect-ai")
    thing = _made(given, options)
    thing_name = _name(thing)

    async def evaluate(ctx: EvalContext) -> Score:
        state = _state(ctx)
        return _score(await thing(state, state.target), thing_name, key)

    return wrapped(
        evaluate,
        thing,
        thing_name=thing_name,
        package="inspect-ai",
        name=name,
        settings={**getattr(thing, "__registry_params__", {}), "key": key},
    )


def _made(given: Any, options: dict[str, Any]) -> Any:
    from inspect_ai.util import registry_create  # noqa: PLC0415 (heavy)

    called = getattr(given, "__call__", None)  # noqa: B004 (its own kind is what matters)
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(called):
        if options:
            raise ScorerError(f"options ({', '.join(options)}) were given for a scorer made before")
        return given
    try:
        if isinstance(given, str):
            return registry_create("scorer", given, **options)
        return given(**options)
    except Exception as error:  # noqa: BLE001 (an unknown name, an option refused)
        raise ScorerError(f"Inspect cannot make the scorer {shown(given)}: {error}") from None


def _name(thing: Any) -> str:
    from inspect_ai.util import registry_info  # noqa: PLC0415 (heavy)

    try:
        return str(registry_info(thing).name.rpartition("/")[2])
    except ValueError:  # made without Inspect's decorator
        return str(getattr(thing, "__name__", type(thing).__name__))


def _state(ctx: EvalContext) -> TaskState:
    """The trace as the state that Inspect's solvers would have left."""
    from inspect_ai.model import ModelName, ModelOutput  # noqa: PLC0415 (heavy)
    from inspect_ai.scorer import Target  # noqa: PLC0415 (heavy)
    from inspect_ai.solver import TaskState  # noqa: PLC0415 (heavy)

    wanted = ctx.expected.output
    texts = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    model = next((span.model for span in reversed(ctx.trace.generations) if span.model), "unknown")
    full = model if "/" in model else f"unknown/{model}"
    return TaskState(
        model=ModelName(full),
        sample_id=ctx.trace.trace_id,
        epoch=1,
        input=ctx.input,
        messages=_messages(ctx),
        target=Target([as_text(each) for each in texts]),
        choices=ctx.metadata.get("choices"),
        output=ModelOutput.from_content(full, ctx.output),
        completed=True,
        metadata=ctx.metadata,
    )


def _messages(ctx: EvalContext) -> list[ChatMessage]:
    """The conversation: the request, the model's words with its tool calls, the tools' results."""
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser  # noqa: PLC0415 (heavy)

    messages: list[ChatMessage] = [ChatMessageUser(content=ctx.input)]
    asking: ChatMessageAssistant | None = None
    for span in ctx.spans:
        if span.span_type == "generation":
            asking = ChatMessageAssistant(content=span.output, model=span.model)
            messages.append(asking)
        elif span.span_type == "tool":
            if asking is None:
                asking = ChatMessageAssistant(content="")
                messages.append(asking)
            messages.append(_called(span, asking, f"call_{len(messages)}"))
    return messages


def _called(span: Span, asking: Any, identity: str) -> ChatMessage:
    from inspect_ai.model import ChatMessageTool  # noqa: PLC0415 (heavy)
    from inspect_ai.tool import ToolCall, ToolCallError  # noqa: PLC0415 (heavy)

    call = ToolCall(id=identity, function=tool_name(span), arguments=tool_arguments(span))
    asking.tool_calls = [*(asking.tool_calls or ()), call]
    error = ToolCallError("unknown", span.error or "failed") if span.failed else None
    return ChatMessageTool(
        content=tool_result(span), tool_call_id=identity, function=call.function, error=error
    )


def _score(result: Any, name: str, key: str | None) -> Score:
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
        value = picked(value, key, name)
    if isinstance(value, Score):
        return Score.failed(str(value.error), reason=reason, metadata=metadata)
    if isinstance(value, float) and math.isnan(value):
        return Score.failed(f"{name} left it unscored", reason=reason, metadata=metadata)
    if isinstance(value, str):
        value = _number(value)
    if not isinstance(value, int | float):
        return Score.failed(f"{name} gave {shown(result.value)}, not a number", metadata=metadata)
    return Score(value, reason, metadata)


def _number(word: str) -> float | None:
    """The number of one of Inspect's grades, of yes or no, or of digits; None for other words."""
    known = _WORDS.get(word, _WORDS.get(word.lower()))
    try:
        return float(word) if known is None else known
    except ValueError:
        return None
