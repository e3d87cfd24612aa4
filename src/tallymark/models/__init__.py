"""Reaching a model or an agent: providers, replay, endpoints, programs, Python functions."""

from tallymark.models.model import Answer, McpServer, Message, Model, Request
from tallymark.models.opening import open_model
from tallymark.models.pacing import Pace
from tallymark.models.retrying import answer_with_retries
from tallymark.models.tokens import count_tokens
from tallymark.models.tracing import trace_of

__all__ = [
    "Answer",
    "McpServer",
    "Message",
    "Model",
    "Pace",
    "Request",
    "answer_with_retries",
    "count_tokens",
    "open_model",
    "trace_of",
]
