"""A model at an address that speaks OpenAI's chat protocol, through pydantic-ai.

Loads pydantic-ai and OpenAI's library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tallymark.models.provider import ProviderConnection, ProviderModel, forget_environment
from tallymark.models.provider_http import make_http_client

if TYPE_CHECKING:
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.models.token_prices import Pricing


class CompatibleProvider(OpenAIProvider):
    """Not OpenAI itself, whose prices would be wrong."""

    name = "endpoint"


def make_compatible_provider(
    name: str,
    base_url: str,
    model: str,
    *,
    key: str | None,
    pricing: Pricing | None,
    egress: EgressPolicy | None = None,
) -> ProviderModel:
    """The model, connected in each event loop that asks it."""

    def connect() -> ProviderConnection:
        client = make_http_client(egress)
        # A key is always given: without one the library would send OPENAI_API_KEY to any address.
        provider = CompatibleProvider(base_url=base_url, api_key=key or "none", http_client=client)
        if egress is not None:
            forget_environment(provider)
        return ProviderConnection(OpenAIChatModel(model, provider=provider), client)

    return ProviderModel(name, connect, pricing)
