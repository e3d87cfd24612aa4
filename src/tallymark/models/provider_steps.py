"""What happened while a provider's model answered: a span for every call, and their sums.

Before it, our conversation in pydantic-ai's terms.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from pydantic_ai import messages

from tallymark.models.model import Answer
from tallymark.models.model_answers import MOST_TOKENS
from tallymark.text import add_known
from tallymark.traces import Span

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ToolCallPart

    from tallymark.models.model import Request
    from tallymark.models.token_prices import Pricing


_unpriced: set[tuple[str | None, ...]] = set()
"""Models that the price table does not have: it takes longest to find that out."""


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


class ProviderSteps:
    """The calls of one answer."""

    def __init__(self, pricing: Pricing | None) -> None:
        self._pricing = pricing
        self._spans: list[Span] = []

    def keep_model_call(
        self, conversation: list[ModelMessage], response: ModelResponse, seconds: float
    ) -> None:
        """Keeps a model call that has ended just now."""
        sent, received = _read_tokens(response)
        finish = response.finish_reason
        self._spans.append(
            Span(
                span_id=str(len(self._spans) + 1),
                name="model call",
                span_type="generation",
                input=read_last_input(conversation),
                output=response.text or "",
                model=response.model_name,
                start_ms=(time() - seconds) * 1000,
                duration_ms=seconds * 1000,
                input_tokens=sent,
                output_tokens=received,
                cost=self._cost(response),
                metadata={} if finish in (None, "stop") else {"finish_reason": finish},
            )
        )

    def keep_tool_call(
        self, call: ToolCallPart, seconds: float, result: str, error: str | None
    ) -> None:
        """Keeps a tool call that has ended just now, well or not."""
        arguments = call.args_as_json_str()
        self._spans.append(
            Span(
                span_id=str(len(self._spans) + 1),
                name=call.tool_name,
                span_type="tool",
                input=arguments,
                output=result,
                tool_name=call.tool_name,
                tool_input=arguments,
                tool_output=result,
                start_ms=(time() - seconds) * 1000,
                duration_ms=seconds * 1000,
                status="ok" if error is None else "error",
                error=error,
            )
        )

    def draft(self, response: ModelResponse, latency: float) -> Answer:
        """The answer with the sums over all model calls; a sum with an unknown part is unknown."""
        calls = [span for span in self._spans if span.span_type == "generation"]
        sent = [call.input_tokens for call in calls if call.input_tokens is not None]
        received = [call.output_tokens for call in calls if call.output_tokens is not None]
        known = len(sent) == len(received) == len(calls)
        return Answer(
            output=response.text or "",
            latency=latency,
            input_tokens=sum(sent) if known else None,
            output_tokens=sum(received) if known else None,
            tokens_counted_by="provider" if known else None,
            cost=add_known(call.cost for call in calls),
            model=response.model_name,
            spans=tuple(sorted(self._spans, key=lambda span: span.start_ms or 0)),
        )

    def _cost(self, response: ModelResponse) -> float | None:
        sent, received = _read_tokens(response)
        if self._pricing is not None:
            known = sent is not None and received is not None
            return self._pricing.cost(sent or 0, received or 0) if known else None
        if response.usage.cost is not None:
            return float(response.usage.cost)
        name = (response.provider_url, response.provider_name, response.model_name)
        if sent is None or name in _unpriced:
            return None
        try:
            return float(response.cost().total_price)
        except LookupError:
            _unpriced.add(name)
        except (ValueError, AssertionError):
            pass
        return None


def _read_tokens(response: ModelResponse) -> tuple[int | None, int | None]:
    """As the provider reports them; no input at all, or too much, means that it does not."""
    told: tuple[Any, Any] = (response.usage.input_tokens, response.usage.output_tokens)
    sent, received = told
    if not isinstance(sent, int) or not isinstance(received, int):
        return None, None  # libraries pass on what a server says
    if not 0 < sent < MOST_TOKENS or received >= MOST_TOKENS:
        return None, None
    return sent, received
