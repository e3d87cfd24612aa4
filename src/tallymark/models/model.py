"""The interface of models: requests, answers with their numbers and spans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from tallymark.traces import Span

Redact = Callable[[Any], Any]
"""From any data to the same without secrets."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server whose tools the model may call: a URL, or a command to start."""

    url: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    command: str | None = None
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    name: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The conversation so far, whose last message is the user's."""

    messages: tuple[Message, ...]
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Model settings such as temperature and max_tokens, by their usual names."""
    mcp_servers: tuple[McpServer, ...] = ()
    epoch: int = 0
    """Number of the repetition; a replay with several answers to one prompt gives them in turn."""

    @property
    def prompt(self) -> str:
        """The last user message."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.content
        return ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An answer with its numbers. None means unknown: an unknown price is never zero."""

    output: str
    latency: float | None
    """Seconds from the request to the whole answer, without waiting in our own queue, loading and
    counting tokens. None where a replay does not record it."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_counted_by: Literal["provider", "local"] | None = None
    cost: float | None = None
    """US dollars."""
    model: str | None = None
    """The model that answered, by its own name."""
    spans: tuple[Span, ...] = ()
    """Model calls and tool calls of the answer, for scorers."""
    cached: bool = False
    """True for an answer from the response cache, without a request and without cost."""


class Model(Protocol):
    """Anything that answers. Made by `open_model(reference)`."""

    name: str
    """The user's reference: `openai/gpt-5-mini`, `replay/careful`."""

    async def answer(self, request: Request) -> Answer:
        """Answer, or raise ModelError."""
        ...

    async def close(self) -> None:
        """Free connections and processes."""
        ...


@runtime_checkable
class Loadable(Protocol):
    """A model with parts that take a while to load."""

    def load(self) -> None:
        """Load everything without a request. Call it before the first measured request: a later
        load would add to the latency of every answer in flight.
        """
        ...
