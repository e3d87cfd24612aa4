"""Making pydantic-ai's model for a reference: which provider, its key, its connections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, ModelError, nearest
from tallymark.models.failures import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

    from tallymark.models.reference import Reference

PROVIDERS = (
    *("alibaba", "anthropic", "azure", "azure-responses", "bedrock", "cerebras", "cohere"),
    *("deepseek", "fireworks", "gateway", "google", "google-cloud", "groq", "heroku"),
    *("huggingface", "litellm", "meta", "mistral", "moonshotai", "nebius", "ollama", "openai"),
    *("openai-chat", "openai-responses", "openrouter", "ovhcloud", "sambanova", "together"),
    *("vercel", "vllm", "xai", "zai"),
)
"""Known without loading pydantic-ai, for messages. What else it knows works too."""

_OVER_AIOHTTP = {"anthropic", "openai", "openai-chat", "openai-responses", "openrouter"}
"""Providers whose library takes an HTTP client of ours: see provider_transport.py."""

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")


class Connection:
    """A model of pydantic-ai, the settings it is always called with, and what must be closed."""

    def __init__(self, model: Model, client: httpx2.AsyncClient | None) -> None:
        self.model = model
        self.settings = _without_retries(model)
        self._client = client

    async def close(self) -> None:
        """Closes the connections, whoever owns them."""
        await self.model.__aexit__(None, None, None)
        if self._client is not None:
            await self._client.aclose()


def made(reference: Reference, kinds: tuple[str, ...]) -> Connection:
    """The model; a package or key that is missing is one sentence that says what to do."""
    try:
        _check_known(reference.kind, kinds)
        return _connected(reference)
    except InvalidInput:
        raise
    except ImportError as error:
        raise _missing_package(reference.text, error) from None
    except Exception as error:  # noqa: BLE001 (each provider says in its own way what it lacks)
        raise _not_made(reference.text, error) from None


def made_at(name: str, base_url: str, model: str, key: str | None) -> Connection:
    """A model at an address that speaks OpenAI's chat protocol."""
    try:
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 (heavy)
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 (heavy)

        from tallymark.models.provider_transport import client_over_aiohttp  # noqa: PLC0415 (heavy)
    except ImportError as error:
        raise _missing_package(name, error) from None

    class Address(OpenAIProvider):
        """Not OpenAI itself, whose prices would be wrong."""

        name = "endpoint"

    client = client_over_aiohttp()
    # A key is always given: without one the library would send OPENAI_API_KEY to any address.
    provider = Address(base_url=base_url, api_key=key or "none", http_client=client)
    return Connection(OpenAIChatModel(model, provider=provider), client)


def _connected(reference: Reference) -> Connection:
    from pydantic_ai.models import infer_model  # noqa: PLC0415 (heavy)
    from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415 (heavy)

    if reference.kind not in _OVER_AIOHTTP:
        return Connection(infer_model(_model_id(reference)), None)
    from tallymark.models.provider_transport import client_over_aiohttp  # noqa: PLC0415 (heavy)

    provider: Callable[..., Provider[Any]] = infer_provider_class(reference.kind)
    client = client_over_aiohttp()
    return Connection(
        infer_model(_model_id(reference), lambda _: provider(http_client=client)), client
    )


def _model_id(reference: Reference) -> str:
    if reference.kind == "gateway":  # its provider stands after it: gateway/openai:name
        return f"gateway/{reference.rest.replace('/', ':', 1)}"
    return f"{reference.kind}:{reference.rest}"


def _without_retries(model: Model) -> dict[str, Any]:
    """Turn off the library's own retries: on its client where it has that, else by a setting.

    The setting would do for all, but it makes a new client for every request.
    """
    client: Any = getattr(model.provider, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = 0
        return {}
    return {} if "max_retries" in model.unsupported_settings else {"max_retries": 0}


def _check_known(kind: str, kinds: tuple[str, ...]) -> None:
    if kind in PROVIDERS:
        return
    try:
        from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415 (heavy)

        infer_provider_class(kind)
    except (ModuleNotFoundError, ValueError):
        near = nearest(kind, (*kinds, *PROVIDERS))
        known = f"known are {', '.join(kinds)} and the providers {', '.join(PROVIDERS)}"
        raise InvalidInput(
            f"{kind!r} is not a kind of model or a provider",
            hint=f"did you mean {near!r}? {known}" if near else known,
        ) from None
    except ImportError:
        return  # known, but its package is missing: said when the model is made


def _missing_package(name: str, error: ImportError) -> ModelError:
    if (error.name or "").partition(".")[0] == "pydantic_ai":
        return ModelError(
            f"{name} needs pydantic-ai", hint='install it with pip install "tallymark[models]"'
        )
    return ModelError(f"{name} needs a package: {one_line(error)}")


def _not_made(name: str, error: Exception) -> ModelError:
    variables = list(dict.fromkeys(_VARIABLE.findall(str(error))))
    if variables:
        return ModelError(f"{name} needs an API key", hint=f"set {' or '.join(variables)}")
    return ModelError(f"{name} cannot be used: {one_line(error)}")
