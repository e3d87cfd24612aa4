"""pydantic-ai's model for a reference, with its connections. Loads pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from tallymark.models.provider_setup import find_given_key

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.quick_requests import QuickRequests

_THROUGH_OPENAI = {
    *("alibaba", "cerebras", "deepseek", "fireworks", "meta", "moonshotai", "nebius", "ollama"),
    *("openai", "openai-chat", "openai-responses", "openrouter", "ovhcloud", "sambanova"),
    *("together", "vercel", "vllm", "zai"),
}
"""Providers that are reached through OpenAI's library: see quick_requests.py."""
_OVER_AIOHTTP = {"anthropic", *_THROUGH_OPENAI}
"""Providers whose library takes an HTTP client of ours: see provider_transport.py."""


class ProviderConnection:
    """A model of pydantic-ai, the settings it is always called with, and what must be closed."""

    def __init__(
        self,
        model: Model,
        client: httpx2.AsyncClient | None = None,
        requests: QuickRequests | None = None,
        *,
        chooses: bool = False,
    ) -> None:
        """`chooses`: the server may have chat completions only."""
        self.model = model
        self.settings = _turn_off_retries(model)
        self._client = client
        self._requests = requests
        self._chooses = chooses

    async def open(self) -> None:
        """Makes it ready; nothing is sent."""
        await self.model.__aenter__()
        await self._rehearse()

    async def choose_protocol(self) -> None:
        """Turns to chat completions where the server has no responses API."""
        if self._chooses and self._requests is not None and await self._requests.lack_responses():
            from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 (heavy)

            provider: Any = self.model.provider
            self.model = OpenAIChatModel(self.model.model_name, provider=provider)
            await self._rehearse()

    async def close(self) -> None:
        """Closes the connections, whoever owns them."""
        await self.model.__aexit__(None, None, None)
        if self._requests is not None:
            await self._requests.close()
        if self._client is not None:
            await self._client.aclose()

    async def _rehearse(self) -> None:
        if self._client is not None:  # what is not sent through ours cannot be held back
            from tallymark.models.provider_rehearsal import rehearse  # noqa: PLC0415 (heavy)

            await rehearse(self.model)


def connect(reference: ModelReference) -> ProviderConnection:
    """A new model for the reference; nothing is sent yet."""
    reach = reference.reach
    given = {} if reach is None else find_given_key(reference, reach)
    if reference.kind not in _OVER_AIOHTTP and reach is None:
        return ProviderConnection(infer_model(_model_id(reference)))
    make_provider: Callable[..., Provider[Any]] = infer_provider_class(reference.kind)
    if reference.kind not in _OVER_AIOHTTP:
        keyed = make_provider(**given)
        return ProviderConnection(infer_model(_model_id(reference), lambda _: keyed))
    from tallymark.models.provider_transport import make_aiohttp_client  # noqa: PLC0415 (heavy)

    client = make_aiohttp_client(reach)
    provider, requests = make_provider(http_client=client, **given), None
    if reach is not None:
        forget_environment(provider)
    if reference.kind in _THROUGH_OPENAI:
        from tallymark.models.quick_requests import QuickRequests  # noqa: PLC0415 (heavy)

        requests = QuickRequests(provider.client, reach)
    model = infer_model(_model_id(reference), lambda _: provider)
    return ProviderConnection(model, client, requests, chooses=reference.kind == "openai")


def forget_environment(provider: Provider[Any]) -> None:
    """Takes out of a provider's client what its library found in the environment."""
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
