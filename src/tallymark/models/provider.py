"""`provider/name`: a real model, through pydantic-ai, with the key in its usual variable.

Tool calls go round here rather than in pydantic-ai's agent: an eval wants every model call and tool
call as it was, without a framework's own prompts, retries and limits. Loads pydantic-ai.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, cast

from pydantic_ai.direct import model_request

from tallymark.errors import ModelError
from tallymark.event_loops import LoopLocal
from tallymark.models.model import Answer
from tallymark.models.model_answers import finish_answer
from tallymark.models.provider_connection import ProviderConnection, connect
from tallymark.models.provider_failures import translate_failure
from tallymark.models.provider_http import time_exchanges
from tallymark.models.provider_setup import explain_failure
from tallymark.models.provider_steps import ProviderSteps, make_history
from tallymark.models.provider_tools import Toolboxes

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """The model's last words, after all the tool calls that it wanted."""
        line = self._lines.get()
        await line.open()
        tools = await line.tools.of(request.mcp_servers)
        conversation = make_history(request)
        steps, latency = ProviderSteps(self._pricing), 0.0
        for _ in range(_ROUNDS):
            began = perf_counter()
            with time_exchanges() as exchanges:
                response = await self._ask_model(line, conversation, request, tools.parameters)
            # Of libraries with a client of their own, the whole call is measured.
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
        """Stops the MCP servers and closes the connections of the running loop."""
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
            raise ModelError(f"{self.name} broke off before it said anything", retryable=True)
        return response


class _ProviderLine:
    """What one event loop asks through: a connection, opened once, and its MCP servers."""

    def __init__(self, name: str, connection: ProviderConnection) -> None:
        self.connection = connection
        self.tools = Toolboxes(name)
        # A lock binds to the loop that first waits for it; a line serves only one.
        self._opening = asyncio.Lock()
        self._open = False

    async def open(self) -> None:
        """Opens the connection, if no other request has."""
        if not self._open:
            async with self._opening:
                if not self._open:
                    await self.connection.open()
                    await self.connection.choose_protocol()
                    self._open = True

    async def close(self) -> None:
        """Stops the servers and closes the connection."""
        await self.tools.close()
        if self._open:
            self._open = False
            await self.connection.close()


def make_provider(reference: ModelReference) -> ProviderModel:
    """The model is made at once, so that a missing package or key shows before anything runs."""

    def reconnect() -> ProviderConnection:
        with explain_failure(reference.text):
            return connect(reference)

    return ProviderModel(reference.text, reconnect, reference.pricing, first=connect(reference))
