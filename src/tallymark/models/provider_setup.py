"""From a reference to a provider's model: which provider, its package, its key.

pydantic-ai is loaded for the first real model, so a missing package shows here, as one sentence
with its remedy.
"""

from __future__ import annotations

import gc
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, ModelError, suggest
from tallymark.installation import explain_install
from tallymark.models.model_failures import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.provider import ProviderModel
    from tallymark.models.token_prices import Pricing

PROVIDERS = (
    *("alibaba", "anthropic", "azure", "azure-responses", "bedrock", "cerebras", "cohere"),
    *("deepseek", "fireworks", "gateway", "google", "google-cloud", "groq", "heroku"),
    *("huggingface", "litellm", "meta", "mistral", "moonshotai", "nebius", "ollama", "openai"),
    *("openai-chat", "openai-responses", "openrouter", "ovhcloud", "sambanova", "together"),
    *("vercel", "vllm", "xai", "zai"),
)
"""Known without loading pydantic-ai, for messages. Its other providers work too."""

PROVIDER_KEYS = {
    "alibaba": ("ALIBABA_API_KEY", None),
    "anthropic": ("ANTHROPIC_API_KEY", "https://api.anthropic.com"),
    "cerebras": ("CEREBRAS_API_KEY", None),
    "deepseek": ("DEEPSEEK_API_KEY", None),
    "fireworks": ("FIREWORKS_API_KEY", None),
    "google": ("GOOGLE_API_KEY", "https://generativelanguage.googleapis.com"),
    "meta": ("META_API_KEY", None),
    "moonshotai": ("MOONSHOTAI_API_KEY", "https://api.moonshot.ai/v1"),
    "nebius": ("NEBIUS_API_KEY", None),
    "openai": ("OPENAI_API_KEY", "https://api.openai.com/v1"),
    "openai-chat": ("OPENAI_API_KEY", "https://api.openai.com/v1"),
    "openai-responses": ("OPENAI_API_KEY", "https://api.openai.com/v1"),
    "openrouter": ("OPENROUTER_API_KEY", None),
    "ovhcloud": ("OVHCLOUD_API_KEY", None),
    "sambanova": ("SAMBANOVA_API_KEY", "https://api.sambanova.ai/v1"),
    "together": ("TOGETHER_API_KEY", None),
    "vercel": ("VERCEL_AI_GATEWAY_API_KEY", None),
    "zai": ("ZAI_API_KEY", None),
}
"""Providers that work with a tenant's key: the name of the key, and the address, where the
environment could name another one."""
_VARIABLE = re.compile(r"\b(?!AZURE_VOICELIVE)[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
"""Names of environment variables, without those of Azure's speech service in the same message."""
_EXAMPLES = {
    "OLLAMA_BASE_URL": "http://localhost:11434/v1",
    "VLLM_BASE_URL": "http://localhost:8000/v1",
}
_HTTPX_COMMAND = "httpx._main"
_EXTRA = re.compile(r"pydantic-ai-slim\[(\w[\w-]*)\]")
_OUR_EXTRA = {"anthropic", "google", "mcp", "openai"}
"""Extras that tallymark[models] contains."""


def open_provider(reference: ModelReference, kinds: tuple[str, ...]) -> ProviderModel:
    """Make the model at once, so that a missing package or key shows before anything runs."""
    with explain_failure(reference.text), _load_lightly():
        _check_known(reference.kind, kinds)
        from tallymark.models.provider import make_provider  # noqa: PLC0415 (pydantic-ai is heavy)

        return make_provider(reference)


@contextmanager
def _load_lightly() -> Iterator[None]:
    """Load libraries without the command of httpx, which brings all of Pygments, and without gc.

    Without its `cli` extra, httpx has no such command either.
    """
    spared, collects, loaded = _HTTPX_COMMAND not in sys.modules, gc.isenabled(), len(sys.modules)
    if spared:
        sys.modules[_HTTPX_COMMAND] = None  # type: ignore[assignment]
    gc.disable()  # what is loaded stays: looking for circles takes a tenth of the time
    try:
        yield
    finally:
        if collects:
            if len(sys.modules) > loaded:  # else every model of a server would freeze its garbage
                gc.freeze()  # the next collection would look at all that was loaded, for 0.2 s
            gc.enable()
        if spared:
            sys.modules.pop(_HTTPX_COMMAND, None)


def find_given_key(reference: ModelReference, egress: EgressPolicy) -> dict[str, str]:
    """Arguments of a provider under an egress policy: the tenant's key, and its public address."""
    if reference.kind not in PROVIDER_KEYS:
        known = ", ".join(PROVIDER_KEYS)
        hint = f"this server allows {known}, and http(s):// addresses"
        raise InvalidInput(f"{reference.kind}/ models are not available to tenants", hint=hint)
    variable, address = PROVIDER_KEYS[reference.kind]
    if variable not in egress.keys:
        hint = f"store it as the secret {variable}"
        raise InvalidInput(f"{reference.text} needs an API key of yours", hint=hint)
    base = {} if address is None else {"base_url": address}
    return {"api_key": egress.keys[variable], **base}


def open_compatible_provider(
    name: str,
    base_url: str,
    model: str,
    *,
    key: str | None,
    pricing: Pricing | None,
    egress: EgressPolicy | None = None,
) -> ProviderModel:
    """A model at an address that speaks OpenAI's chat protocol, for what only pydantic-ai can."""
    try:
        from tallymark.models.compatible_provider import (  # noqa: PLC0415 (pydantic-ai is heavy)
            make_compatible_provider,
        )
    except ImportError as error:
        raise _make_package_error(name, error) from None
    return make_compatible_provider(name, base_url, model, key=key, pricing=pricing, egress=egress)


@contextmanager
def explain_failure(name: str) -> Iterator[None]:
    """Turn any exception from making a model into one sentence."""
    try:
        yield
    except InvalidInput:
        raise
    except ImportError as error:
        raise _make_package_error(name, error) from None
    except Exception as error:  # noqa: BLE001 (each provider says in its own way what it lacks)
        raise _make_unusable_error(name, error) from None


def _check_known(kind: str, kinds: tuple[str, ...]) -> None:
    if kind in PROVIDERS:
        return
    try:
        from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415 (heavy)

        infer_provider_class(kind)
    except (ModuleNotFoundError, ValueError):
        near = suggest(kind, (*kinds, *PROVIDERS))
        known = f"known are {', '.join(kinds)} and the providers {', '.join(PROVIDERS)}"
        raise InvalidInput(
            f"{kind!r} is not a kind of model or a provider",
            hint=f"did you mean {near!r}? {known}" if near else known,
        ) from None
    except ImportError:
        return  # known, but its package is missing: reported when the model is made


def _make_package_error(name: str, error: ImportError) -> ModelError:
    found = _EXTRA.search(str(error))
    if found is not None:
        what = f"the package of {found[1]}"
        package = "tallymark[models]" if found[1] in _OUR_EXTRA else found[0]
    elif (error.name or "").partition(".")[0] == "pydantic_ai":
        what, package = "pydantic-ai", "tallymark[models]"
    else:
        what, package = f"a package: {one_line(error)}", "tallymark[models]"
    return ModelError(f"{name} needs {what}", hint=explain_install(package))


def _make_unusable_error(name: str, error: Exception) -> ModelError:
    variables = list(dict.fromkeys(_VARIABLE.findall(str(error))))
    if "region_name" in str(error):  # Bedrock's library names its parameter
        variables = ["AWS_DEFAULT_REGION"]
    if not variables:
        return ModelError(f"{name} cannot be used: {one_line(error)}")
    example = _EXAMPLES.get(variables[0])
    also = "" if example is None else f", such as {example}"
    return ModelError(
        f"{name} needs {_name_need(variables[0])}", hint=f"set {' or '.join(variables)}{also}"
    )


def _name_need(variable: str) -> str:
    """The purpose of a variable, by the end of its name."""
    match variable.rpartition("_")[2]:
        case "URL" | "ENDPOINT":
            return "the address of its server"
        case "VERSION":
            return "an API version"
        case "REGION":
            return "a region"
        case _:
            return "an API key"
