"""pydantic-ai's messages, usage and exceptions in our terms: a span for every call, and their sums.

Loads pydantic-ai.
"""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from pydantic_ai import exceptions, messages

from tallymark.errors import ModelError
from tallymark.models.model import Answer
from tallymark.models.model_answers import MOST_TOKENS
from tallymark.models.model_failures import http_failure, one_line, retry_after
from tallymark.text import add_known
from tallymark.traces import Span

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ToolCallPart

    from tallymark.models.model import Request
    from tallymark.models.token_prices import Pricing

_unpriced: set[tuple[str | None, ...]] = set()
"""Models that the price table does not have: a lookup that fails is the slowest."""


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
    """The model's latest input: the user's words, or the results of its tools."""
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
        """Add a span for a model call that has just ended."""
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
        """Add a span for a tool call that has just ended, failed or not."""
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
    """Reported tokens; an input of 0, or too large, means that they are not reported."""
    reported: tuple[Any, Any] = (response.usage.input_tokens, response.usage.output_tokens)
    sent, received = reported
    if not isinstance(sent, int) or not isinstance(received, int):
        return None, None  # libraries pass on any value of a server
    if not 0 < sent < MOST_TOKENS or received >= MOST_TOKENS:
        return None, None
    return sent, received


_NOT_SENT = ("pool", "connect")
"""Phases of a request in which nothing has been sent yet."""


def translate_failure(name: str, error: Exception) -> ModelError:
    """The ModelError for any exception of a provider's library."""
    if isinstance(error, exceptions.ModelHTTPError):
        return _translate_status(name, error)
    message = one_line(error)
    if isinstance(error, exceptions.ModelRateLimitError | exceptions.ModelUnavailableError):
        return ModelError(
            f"{name} is overloaded: {message}",
            retryable=True,
            throttled=True,
            retry_after=error.retry_after,
            refused=True,
        )
    lasting = (
        exceptions.ModelQuotaExceededError,
        exceptions.ModelRequestRejectedError,
        exceptions.ContentFilterError,
        exceptions.UserError,
    )
    if isinstance(error, lasting):
        return ModelError(f"{name} refused the request: {message}", refused=True)
    not_sent = getattr(error, "phase", None) in _NOT_SENT
    timeout = isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout)
    if timeout and not not_sent:
        return ModelError(f"{name} did not answer in time: {message}", retryable=True)
    if isinstance(error, exceptions.ModelConnectionError | OSError):
        why = "connecting took too long" if timeout else one_line(_find_first_cause(error))
        return ModelError(
            f"{name} could not be reached: {why}",
            retryable=True,
            refused=not_sent or isinstance(error, ConnectionRefusedError),
        )
    # A body of another shape, on which each library fails in its own way.
    if isinstance(error, exceptions.AgentRunError | IndexError | KeyError | AttributeError):
        return ModelError(f"{name} gave an answer that cannot be read: {message}", retryable=True)
    return ModelError(f"{name} failed: {type(error).__name__}: {message}")


def _translate_status(name: str, error: Any) -> ModelError:
    by_status = http_failure(name, error.status_code, {}, _find_message(error))
    lasting = isinstance(error, exceptions.ModelQuotaExceededError)
    return ModelError(
        by_status.problems[0].message,
        hint="the account has no credit left" if lasting else by_status.problems[0].hint,
        retryable=by_status.retryable and not lasting,
        throttled=by_status.throttled and not lasting,
        retry_after=retry_after(error.headers or {}) or error.retry_after,
        refused=True,
    )


def _find_first_cause(error: BaseException) -> BaseException:
    """The error at the start of the chain, which is more precise than those that wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _find_message(error: Any) -> str:
    """The provider's own sentence, at any depth of its error body."""
    body = error.body
    while isinstance(body, dict):
        body = body.get("message") or body.get("error") or ""
    return str(body or "")
