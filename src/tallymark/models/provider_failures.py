"""pydantic-ai's exceptions as ours: does asking again help, were we told to slow down?

Loads pydantic-ai.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import exceptions

from tallymark.errors import ModelError
from tallymark.models.model_failures import http_failure, one_line, retry_after

_NOT_SENT = ("pool", "connect")
"""Phases of a request in which nothing has been sent yet."""


def translate_failure(name: str, error: Exception) -> ModelError:
    """The ModelError for whatever a provider's library raised."""
    if isinstance(error, exceptions.ModelHTTPError):
        return _translate_status(name, error)
    said = one_line(error)
    if isinstance(error, exceptions.ModelRateLimitError | exceptions.ModelUnavailableError):
        return ModelError(
            f"{name} is overloaded: {said}",
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
        return ModelError(f"{name} refused the request: {said}", refused=True)
    not_sent = getattr(error, "phase", None) in _NOT_SENT
    timeout = isinstance(error, exceptions.ModelTimeoutError | exceptions.ModelRequestTimeout)
    if timeout and not not_sent:
        return ModelError(f"{name} did not answer in time: {said}", retryable=True)
    if isinstance(error, exceptions.ModelConnectionError | OSError):
        why = "connecting took too long" if timeout else one_line(_find_first_cause(error))
        return ModelError(
            f"{name} could not be reached: {why}",
            retryable=True,
            refused=not_sent or isinstance(error, ConnectionRefusedError),
        )
    # A body that is not what was promised, which libraries stumble over in ways of their own.
    if isinstance(error, exceptions.AgentRunError | IndexError | KeyError | AttributeError):
        return ModelError(f"{name} gave an answer that cannot be read: {said}", retryable=True)
    return ModelError(f"{name} failed: {type(error).__name__}: {said}")


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
    """The error that started the chain, which says more than those that wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _find_message(error: Any) -> str:
    """The provider's own sentence in its error body, wherever it stands."""
    body = error.body
    while isinstance(body, dict):
        body = body.get("message") or body.get("error") or ""
    return str(body or "")
