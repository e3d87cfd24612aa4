"""Tokens of a model call by kind, from the many names that providers and libraries have for them.

`input` is all input and `output` all output: cached tokens are part of the input, reasoning is part
of the output. Some sources report cached tokens separately; they are added here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.traces.lenient_json import as_count, as_mapping

FIELDS = (
    *("input_tokens", "output_tokens"),
    *("cache_read_tokens", "cache_write_tokens", "cache_write_1h_tokens", "reasoning_tokens"),
)
"""The fields of a span that count tokens."""


class TokenCounts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Tokens of one call, under the names of a span's fields. None is not known, never 0."""

    input_tokens: int | None = None
    """All input, with what was read from a cache and written to it."""
    output_tokens: int | None = None
    """All output, with reasoning."""
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    """All writes to a cache."""
    cache_write_1h_tokens: int | None = None
    """Part of `cache_write_tokens`: writes with a lifetime of an hour."""
    reasoning_tokens: int | None = None

    def as_fields(self) -> dict[str, Any]:
        """The fields of a span that count tokens."""
        return {name: getattr(self, name) for name in FIELDS}


def add_counts(parts: Iterable[TokenCounts]) -> TokenCounts:
    """The sum of each kind; None where no part knows it."""
    parts = list(parts)
    known = {
        name: [count for each in parts if (count := getattr(each, name)) is not None]
        for name in FIELDS
    }
    return TokenCounts(**{name: sum(each) if each else None for name, each in known.items()})


Names = tuple[str, ...]
_USAGE: dict[str, Names] = {
    "input_tokens": (
        *("input_tokens", "prompt_tokens", "input", "prompt"),
        *("inputTokens", "promptTokens", "promptTokenCount", "input_token_count"),
    ),
    "output_tokens": (
        *("output_tokens", "completion_tokens", "output", "completion"),
        *("outputTokens", "completionTokens", "candidatesTokenCount", "output_token_count"),
    ),
    "cache_read_tokens": (
        *("cache_read_tokens", "cache_read_input_tokens", "cached_input_tokens", "cached_tokens"),
        *("cachedInputTokens", "cacheReadInputTokens", "input_cached_tokens", "input_cache_read"),
        *("input_tokens_cache_read", "cachedContentTokenCount", "cached_content_token_count"),
        "cacheReadTokens",
        *("input_token_details.cache_read", "input_tokens_details.cached_tokens"),
        *("prompt_tokens_details.cached_tokens", "inputTokenDetails.cacheReadTokens"),
    ),
    "cache_write_tokens": (
        *("cache_write_tokens", "cache_creation_input_tokens", "cache_write_input_tokens"),
        *("cacheWriteInputTokens", "cacheCreationInputTokens", "input_cache_creation"),
        "cacheWriteTokens",
        *("input_tokens_cache_write", "cache_creation_tokens"),
        *("input_token_details.cache_creation", "input_tokens_details.cache_write_tokens"),
        *("prompt_tokens_details.cache_write_tokens", "inputTokenDetails.cacheWriteTokens"),
    ),
    "cache_write_1h_tokens": (
        *("cache_write_1h_tokens", "cache_creation.ephemeral_1h_input_tokens"),
        *("cache_creation_1h_input_tokens", "input_token_details.ephemeral_1h_input_tokens"),
    ),
    "reasoning_tokens": (
        *("reasoning_tokens", "reasoningTokens", "reasoning_output_tokens"),
        *("output_reasoning_tokens", "output_reasoning", "thinking_tokens", "thoughtsTokenCount"),
        *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
        *("output_token_details.reasoning", "outputTokenDetails.reasoningTokens"),
    ),
}
"""Keys of usage objects; a dot leads inside."""
_TOTAL = ("total_tokens", "totalTokens", "total", "totalTokenCount")
_ATTRIBUTES: dict[str, Names] = {
    "input_tokens": (
        *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
        *("llm.usage.prompt_tokens", "gen_ai.aggregated_usage.input_tokens"),
    ),
    "output_tokens": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        *("llm.token_count.completion", "llm.usage.completion_tokens"),
        "gen_ai.aggregated_usage.output_tokens",
    ),
    "cache_read_tokens": (
        *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.details.cache_read_tokens"),
        *("gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cached_input_tokens"),
        *("gen_ai.usage.details.cache_read_input_tokens", "gen_ai.usage.input_tokens.cached"),
        *("llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens"),
    ),
    "cache_write_tokens": (
        *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_write.input_tokens"),
        *("gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.cache_write_input_tokens"),
        *("gen_ai.usage.details.cache_write_tokens", "gen_ai.usage.input_tokens.cache_write"),
        "gen_ai.usage.details.cache_creation_input_tokens",
        *("llm.token_count.prompt_details.cache_write", "llm.usage.cache_creation_input_tokens"),
    ),
    "cache_write_1h_tokens": (
        *("gen_ai.usage.cache_creation.ephemeral_1h_input_tokens",),
        *("gen_ai.usage.details.cache_write_1h_tokens",),
    ),
    "reasoning_tokens": (
        *("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.details.reasoning_tokens"),
        *("gen_ai.usage.reasoning_tokens", "gen_ai.usage.thinking_tokens"),
        *("gen_ai.usage.output_tokens.reasoning", "llm.usage.reasoning_tokens"),
        "llm.token_count.completion_details.reasoning",
    ),
}
"""Attributes of OpenTelemetry spans: the GenAI conventions, older ones and OpenInference."""
ATTRIBUTES = frozenset(name for names in _ATTRIBUTES.values() for name in names)
STANDARD = {field: names[0] for field, names in _ATTRIBUTES.items()}
"""The name that the conventions have for each field."""
_IN_PARTS = ATTRIBUTES.difference(_ATTRIBUTES["input_tokens"], _ATTRIBUTES["output_tokens"])


def read_attributes(attributes: Mapping[str, Any]) -> TokenCounts:
    """The tokens that a span's attributes report."""
    fields = ("input_tokens", "output_tokens") if _IN_PARTS.isdisjoint(attributes) else FIELDS
    found = {field: _find_count(attributes, _ATTRIBUTES[field]) for field in fields}
    return _include_cached(found) if len(found) > 2 else TokenCounts(**found)


def read_usage(usage: Mapping[str, Any], *, cached_apart: bool = False) -> TokenCounts:
    """The tokens of a usage object, in the spelling of any provider.

    With `cached_apart`, cached tokens are not part of the reported input (Anthropic).
    """
    found = {field: _find_inside(usage, names) for field, names in _USAGE.items()}
    known = _find_count(usage, _TOTAL)
    parts = (found["cache_read_tokens"] or 0) + (found["cache_write_tokens"] or 0)
    whole = (found["input_tokens"] or 0) + (found["output_tokens"] or 0) + parts
    return _include_cached(found, apart=cached_apart or (parts > 0 and known == whole))


def _include_cached(found: dict[str, int | None], *, apart: bool = False) -> TokenCounts:
    """Add cached tokens to the input if they were counted separately, as when they exceed it."""
    parts = (found["cache_read_tokens"] or 0) + (found["cache_write_tokens"] or 0)
    inputs = found["input_tokens"]
    if inputs is not None and (apart or parts > inputs):
        found["input_tokens"] = inputs + parts
    return TokenCounts(**found)


def _find_count(held: Mapping[str, Any], names: Names) -> int | None:
    for name in names:
        if name in held and (count := as_count(held[name])) is not None:
            return count
    return None


def _find_inside(held: Mapping[str, Any], names: Names) -> int | None:
    for name in names:
        outer, _, inner = name.partition(".")
        value = as_mapping(held.get(outer)).get(inner) if inner else held.get(outer)
        if (count := as_count(value)) is not None:
            return count
    return None
