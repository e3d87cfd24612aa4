"""`provider/name`: a real model, through pydantic-ai, with the key in its usual variable.

Tool calls go round here rather than in pydantic-ai's agent: an eval wants every model call and tool
call as it was, without a framework's own prompts, retries and limits. Loads pydantic-ai.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.direct import model_request
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from tallymark.errors import ModelError
from tallymark.event_loops import LoopLocal
from tallymark.models.model import Answer
from tallymark.models.model_answers import finish_answer
from tallymark.models.provider_http import make_http_client, time_exchanges
from tallymark.models.provider_setup import explain_failure, find_given_key
from tallymark.models.provider_tools import Toolboxes
from tallymark.models.provider_translation import ProviderSteps, make_history, translate_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.token_prices import Pricing

_ROUNDS = 50
"""Model calls in one answer: a model that still calls tools then is going in circles."""


class ProviderModel:
    """A provider's model. Its library's own retries are off, so that the runner's limits hold."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], ProviderConnection],
        pricing: Pricing | None = None,
        *,
        first: ProviderConnection | None = None,
    ) -> None:
        """`connect` is called for each event loop that asks, but the first one gets `first`."""
        self.name = name
        self._pricing = pricing
        self._lines = LoopLocal(
            lambda: _ProviderLine(name, connect()),
            first=None if first is None else _ProviderLine(name, first),
        )

    async def answer(self, request: Request) -> Answer:
        """The model's final answer, after all its tool calls."""
        line = self._lines.get()
        await line.open()
        tools = await line.tools.of(request.mcp_servers)
        conversation = make_history(request)
        steps, latency = ProviderSteps(self._pricing), 0.0
        for _ in range(_ROUNDS):
            began = perf_counter()
            with time_exchanges() as exchanges:
                response = await self._ask_model(line, conversation, request, tools.parameters)
            # For libraries with a client of their own, the whole call is measured.
            seconds = sum(exchanges) or perf_counter() - began
            latency += seconds
            steps.keep_model_call(conversation, response, seconds)
            if not response.tool_calls:
                draft = steps.draft(response, latency)
                return await finish_answer(request, draft, self._pricing)
            began = perf_counter()
            returned = await tools.call_all(response.tool_calls, steps)
            latency += perf_counter() - began
            conversation += [response, returned]
        raise ModelError(f"{self.name} still calls tools after {_ROUNDS} rounds")

    async def close(self) -> None:
        """Stop the MCP servers and close the connections of the running loop."""
        line = self._lines.pop()
        if line is not None:
            await line.close()

    async def _ask_model(
        self,
        line: _ProviderLine,
        conversation: list[ModelMessage],
        request: Request,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        settings = cast("ModelSettings", {**line.connection.settings, **request.settings})
        try:
            response = await model_request(
                line.connection.model,
                conversation,
                model_settings=settings,
                model_request_parameters=parameters,
            )
        except Exception as error:
            raise translate_failure(self.name, error) from error
        if not response.parts and response.finish_reason is None:
            raise ModelError(f"{self.name} broke off before its first word", retryable=True)
        return response


class _ProviderLine:
    """The connection of one event loop, opened once, and its MCP servers."""

    def __init__(self, name: str, connection: ProviderConnection) -> None:
        self.connection = connection
        self.tools = Toolboxes(name)
        # A lock binds to the loop that first waits for it; a line serves only one.
        self._opening = asyncio.Lock()
        self._open = False

    async def open(self) -> None:
        """Open the connection, unless another request has."""
        if not self._open:
            async with self._opening:
                if not self._open:
                    await self.connection.open()
                    await self.connection.choose_protocol()
                    self._open = True

    async def close(self) -> None:
        """Stop the servers and close the connection."""
        await self.tools.close()
        if self._open:
            self._open = False
            await self.connection.close()


def make_provider(reference: ModelReference) -> ProviderModel:
    """Make the model at once, so that a missing package or key shows before anything runs."""

    def reconnect() -> ProviderConnection:
        with explain_failure(reference.text):
            return connect(reference)

    return ProviderModel(reference.text, reconnect, reference.pricing, first=connect(reference))


_WITH_OUR_CLIENT = {
    *("alibaba", "anthropic", "cerebras", "deepseek", "fireworks", "meta", "moonshotai", "nebius"),
    *("ollama", "openai", "openai-chat", "openai-responses", "openrouter", "ovhcloud"),
    *("sambanova", "together", "vercel", "vllm", "zai"),
}
"""Providers whose library takes an HTTP client: see provider_http.py."""
_OPENAI = "api.openai.com"
_NOT_THERE = {404, 405, 501}
_PROBE_SECONDS = 10.0


class ProviderConnection:
    """A model of pydantic-ai, the settings it is always called with, and what must be closed."""

    def __init__(
        self, model: Model, client: httpx2.AsyncClient | None = None, *, chooses: bool = False
    ) -> None:
        """`chooses` is for servers that may have chat completions only."""
        self.model = model
        self.settings = _turn_off_retries(model)
        self._client = client
        self._chooses = chooses

    async def open(self) -> None:
        """Make it ready; nothing is sent."""
        await self.model.__aenter__()

    async def choose_protocol(self) -> None:
        """Turn to chat completions where the server has no responses API."""
        provider: Any = self.model.provider
        if self._chooses and await _lacks_responses(provider.client):
            from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 (heavy)

            self.model = OpenAIChatModel(self.model.model_name, provider=provider)

    async def close(self) -> None:
        """Close all connections, those of the library and our own."""
        await self.model.__aexit__(None, None, None)
        if self._client is not None:
            await self._client.aclose()


async def _lacks_responses(client: Any) -> bool:
    """Ask a server that is not OpenAI's by an empty request, which costs nothing.

    Not by the first real one: many are on their way before the first has its answer.
    """
    from openai import APIStatusError  # noqa: PLC0415 (heavy; loaded by now)

    if client.base_url.host == _OPENAI:
        return False
    try:
        await client.responses.create(timeout=_PROBE_SECONDS)
    except APIStatusError as error:
        return error.status_code in _NOT_THERE
    except Exception:  # noqa: BLE001 (the first real request explains any failure better)
        return False
    return False


def connect(reference: ModelReference) -> ProviderConnection:
    """A new model for the reference; nothing is sent yet."""
    egress = reference.egress
    given = {} if egress is None else find_given_key(reference, egress)
    if reference.kind not in _WITH_OUR_CLIENT and egress is None:
        return ProviderConnection(infer_model(_model_id(reference)))
    make_provider: Callable[..., Provider[Any]] = infer_provider_class(reference.kind)
    if reference.kind not in _WITH_OUR_CLIENT:
        keyed = make_provider(**given)
        return ProviderConnection(infer_model(_model_id(reference), lambda _: keyed))
    client = make_http_client(egress)
    provider = make_provider(http_client=client, **given)
    if egress is not None:
        forget_environment(provider)
    model = infer_model(_model_id(reference), lambda _: provider)
    return ProviderConnection(model, client, chooses=reference.kind == "openai")


def forget_environment(provider: Provider[Any]) -> None:
    """Remove from a provider's client the settings that its library found in the environment."""
    client: Any = provider.client
    for name in ("organization", "project", "auth_token"):
        if hasattr(client, name):
            setattr(client, name, None)
    if hasattr(client, "_custom_headers"):
        client._custom_headers = {}  # noqa: SLF001 (no other way leads there)


def _model_id(reference: ModelReference) -> str:
    if reference.kind == "gateway":  # its provider stands after it: gateway/openai:name
        return f"gateway/{reference.rest.replace('/', ':', 1)}"
    return f"{reference.kind}:{reference.rest}"


def _turn_off_retries(model: Model) -> dict[str, Any]:
    """Turn off the library's own retries: on its client where it has that, else by a setting.

    The setting would do for all, but it makes a new client for every request.
    """
    client: Any = getattr(model.provider, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = 0
        return {}
    return {} if "max_retries" in model.unsupported_settings else {"max_retries": 0}
