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
        """`chooses`: the server may have chat completions only."""
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
        """Close the connections, whoever owns them."""
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
    except Exception:  # noqa: BLE001 (whatever it is, the first real request says it better)
        return False
    return False


def connect(reference: ModelReference) -> ProviderConnection:
    """A new model for the reference; nothing is sent yet."""
    reach = reference.reach
    given = {} if reach is None else find_given_key(reference, reach)
    if reference.kind not in _WITH_OUR_CLIENT and reach is None:
        return ProviderConnection(infer_model(_model_id(reference)))
    make_provider: Callable[..., Provider[Any]] = infer_provider_class(reference.kind)
    if reference.kind not in _WITH_OUR_CLIENT:
        keyed = make_provider(**given)
        return ProviderConnection(infer_model(_model_id(reference), lambda _: keyed))
    from tallymark.models.provider_http import make_http_client  # noqa: PLC0415 (heavy)

    client = make_http_client(reach)
    provider = make_provider(http_client=client, **given)
    if reach is not None:
        forget_environment(provider)
    model = infer_model(_model_id(reference), lambda _: provider)
    return ProviderConnection(model, client, chooses=reference.kind == "openai")


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
