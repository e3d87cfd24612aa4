"""What a model is to the rest: something that answers a request, with its numbers and its trace."""

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
    """What is asked: the conversation so far, the last message being the user's."""

    messages: tuple[Message, ...]
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Model settings such as temperature and max_tokens, by their usual names."""
    mcp_servers: tuple[McpServer, ...] = ()
    epoch: int = 0
    """Which repetition this is; a replay with several answers to one prompt gives them in turn."""

    @property
    def prompt(self) -> str:
        """The last user message."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.content
        return ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came back. None means not known: an unknown price is never a zero."""

    output: str
    latency: float | None
    """Seconds from the request to the whole answer: neither waiting in our own queue is in it, nor
    loading, nor counting tokens. None where a replay does not say it."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_counted_by: Literal["provider", "local"] | None = None
    cost: float | None = None
    """US dollars."""
    model: str | None = None
    """The model that answered, by its own name."""
    spans: tuple[Span, ...] = ()
    """What happened on the way: model calls and tool calls, for scorers."""
    cached: bool = False
    """True when it came from the response cache: nothing was asked and nothing paid."""


class Model(Protocol):
    """Anything that answers. Made by `open_model(reference)`."""

    name: str
    """As the user wrote it: `openai/gpt-5-mini`, `replay/careful`."""

    async def answer(self, request: Request) -> Answer:
        """Answers, or raises ModelError."""
        ...

    async def close(self) -> None:
        """Frees connections and processes."""
        ...


@runtime_checkable
class Loadable(Protocol):
    """A model that needs what takes a while to load."""

    def load(self) -> None:
        """Loads all of it, and asks nothing. Whoever measures calls this before the first request:
        what is loaded later is charged to every answer that is on its way.
        """
        ...
