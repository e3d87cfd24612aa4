"""`provider/name`: a real model, through pydantic-ai, with the key in its usual variable.

Tool calls go round here rather than in pydantic-ai's agent: an eval wants every model call and tool
call as it was, without a framework's own prompts, retries and limits.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, cast

from tallymark.errors import ModelError
from tallymark.models.answers import finished
from tallymark.models.model import Answer
from tallymark.models.provider_failures import failure
from tallymark.models.provider_making import made
from tallymark.models.provider_messages import history
from tallymark.models.provider_steps import Steps
from tallymark.models.provider_tools import Tools

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    from tallymark.models.model import Request
    from tallymark.models.pricing import Pricing
    from tallymark.models.provider_making import Connection
    from tallymark.models.reference import Reference

_ROUNDS = 50
"""Model calls in one answer: a model that still calls tools then is going in circles."""


class Provider:
    """A provider's model. Its library's own retries are off, so that the runner's limits hold."""

    def __init__(self, name: str, connection: Connection, pricing: Pricing | None = None) -> None:
        self.name = name
        self._connection = connection
        self._pricing = pricing
        self._tools = Tools(name)
        self._opening = asyncio.Lock()
        self._open = False

    async def answer(self, request: Request) -> Answer:
        """The model's last words, after all the tool calls that it wanted."""
        await self._opened()
        tools = await self._tools.of(request.mcp_servers)
        conversation = history(request)
        steps = Steps(self._pricing)
        began = perf_counter()
        for _ in range(_ROUNDS):
            asked = perf_counter()
            response = await self._called(conversation, request, tools.parameters)
            steps.model_call(conversation, response, asked)
            if not response.tool_calls:
                draft = steps.draft(response, perf_counter() - began)
                return await finished(request, draft, self._pricing)
            returned = await tools.called(response.tool_calls, steps)
            conversation += [response, returned]
        raise ModelError(f"{self.name} still calls tools after {_ROUNDS} rounds")

    async def close(self) -> None:
        """Stops MCP servers and closes connections."""
        await self._tools.close()
        if self._open:
            self._open = False
            await self._connection.close()

    async def _opened(self) -> None:
        if not self._open:
            async with self._opening:
                if not self._open:
                    await self._connection.model.__aenter__()
                    self._open = True

    async def _called(
        self,
        conversation: list[ModelMessage],
        request: Request,
        parameters: ModelRequestParameters,
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request  # noqa: PLC0415 (heavy)

        settings = cast("ModelSettings", {**self._connection.settings, **request.settings})
        try:
            response = await model_request(
                self._connection.model,
                conversation,
                model_settings=settings,
                model_request_parameters=parameters,
            )
        except Exception as error:
            raise failure(self.name, error) from error
        if not response.parts and response.finish_reason is None:
            raise ModelError(f"{self.name} broke off before it said anything", retryable=True)
        return response


def open_provider(reference: Reference, kinds: tuple[str, ...]) -> Provider:
    """The model is made at once, so that a missing package or key shows before anything runs."""
    return Provider(reference.text, made(reference, kinds), reference.pricing)
