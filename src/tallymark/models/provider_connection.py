"""pydantic-ai's model for a reference, with its connections. Loads pydantic-ai."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from tallymark.models.model_kinds import ModelReference

_OVER_AIOHTTP = {"anthropic", "openai", "openai-chat", "openai-responses", "openrouter"}
"""Providers whose library takes an HTTP client of ours: see provider_transport.py."""


class ProviderConnection:
    """A model of pydantic-ai, the settings it is always called with, and what must be closed."""

    def __init__(self, model: Model, client: httpx2.AsyncClient | None) -> None:
        self.model = model
        self.settings = _turn_off_retries(model)
        self._client = client

    async def close(self) -> None:
        """Closes the connections, whoever owns them."""
        await self.model.__aexit__(None, None, None)
        if self._client is not None:
            await self._client.aclose()


def connect(reference: ModelReference) -> ProviderConnection:
    """A new model for the reference; nothing is sent yet."""
    if reference.kind not in _OVER_AIOHTTP:
        return ProviderConnection(infer_model(_model_id(reference)), None)
    from tallymark.models.provider_transport import make_aiohttp_client  # noqa: PLC0415 (heavy)

    provider: Callable[..., Provider[Any]] = infer_provider_class(reference.kind)
    client = make_aiohttp_client()
    return ProviderConnection(
        infer_model(_model_id(reference), lambda _: provider(http_client=client)), client
    )


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
