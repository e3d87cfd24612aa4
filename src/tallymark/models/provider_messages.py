"""Our conversation in pydantic-ai's terms. Loads pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai import messages

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart

    from tallymark.models.model import Request


def make_history(request: Request) -> list[ModelMessage]:
    """The conversation so far; what comes before an answer of the assistant is one request."""
    conversation: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in request.messages:
        if message.role == "assistant":
            if parts:
                conversation.append(messages.ModelRequest(parts=parts))
                parts = []
            conversation.append(messages.ModelResponse(parts=[messages.TextPart(message.content)]))
        elif message.role == "system":
            parts.append(messages.SystemPromptPart(message.content))
        else:
            parts.append(messages.UserPromptPart(message.content))
    conversation.append(messages.ModelRequest(parts=parts))
    return conversation


def read_last_input(conversation: list[ModelMessage]) -> str:
    """What the model is asked now: the user's words, or the results of its tools."""
    texts = []
    for part in conversation[-1].parts:
        if isinstance(part, messages.ToolReturnPart):
            texts.append(part.model_response_str())
        elif isinstance(part, messages.UserPromptPart) and isinstance(part.content, str):
            texts.append(part.content)
    return "\n".join(texts)
