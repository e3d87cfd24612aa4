"""Tokens by kind, in the spelling of every source, and what a call with a cache costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.traces.otel_spans import OtelSpan
from tallymark.traces.otel_traces import assemble
from tallymark.traces.token_counts import TokenCounts, read_usage

CACHED = TokenCounts(
    input_tokens=52_000,
    output_tokens=1_000,
    cache_read_tokens=50_000,
    cache_write_tokens=1_500,
    reasoning_tokens=400,
)
"""500 new tokens, 50,000 read, 1,500 written; 600 said and 400 thought."""
DOLLARS = (500 * 3 + 50_000 * 0.3 + 1_500 * 3.75 + 1_000 * 15) / 1e6
"""By the rates of claude-sonnet-4-5 below 200,000 tokens of input."""
MODEL = "claude-sonnet-4-5"
SAYING: dict[str, dict[str, Any]] = {
    "the conventions": {
        "gen_ai.usage.input_tokens": 52_000,
        "gen_ai.usage.output_tokens": 1_000,
        "gen_ai.usage.cache_read.input_tokens": 50_000,
        "gen_ai.usage.cache_creation.input_tokens": 1_500,
        "gen_ai.usage.reasoning.output_tokens": 400,
    },
    "pydantic-ai": {
        "gen_ai.usage.input_tokens": 52_000,
        "gen_ai.usage.output_tokens": 1_000,
        "gen_ai.usage.details.cache_read_tokens": 50_000,
        "gen_ai.usage.details.cache_write_tokens": 1_500,
        "gen_ai.usage.details.reasoning_tokens": 400,
    },
    "OpenLLMetry": {
        "gen_ai.usage.prompt_tokens": 52_000,
        "gen_ai.usage.completion_tokens": 1_000,
        "gen_ai.usage.cache_read_input_tokens": 50_000,
        "gen_ai.usage.cache_creation_input_tokens": 1_500,
        "gen_ai.usage.reasoning_tokens": 400,
    },
    "OpenInference": {
        "openinference.span.kind": "LLM",
        "llm.model_name": MODEL,
        "llm.token_count.prompt": 52_000,
        "llm.token_count.completion": 1_000,
        "llm.token_count.prompt_details.cache_read": 50_000,
        "llm.token_count.prompt_details.cache_write": 1_500,
        "llm.token_count.completion_details.reasoning": 400,
    },
    "Vercel's AI SDK": {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.usage.inputTokens": 52_000,
        "ai.usage.outputTokens": 1_000,
        "ai.usage.cachedInputTokens": 50_000,
        "ai.usage.inputTokenDetails.cacheWriteTokens": 1_500,
        "ai.usage.reasoningTokens": 400,
    },
    "Langfuse, its own kinds": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": json.dumps(
            {
                "input": 500,
                "input_cached_tokens": 50_000,
                "input_cache_creation": 1_500,
                "output": 600,
                "output_reasoning_tokens": 400,
            }
        ),
    },
    "Langfuse, the provider's object": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": json.dumps(
            {
                "prompt_tokens": 52_000,
                "completion_tokens": 1_000,
                "prompt_tokens_details": {"cached_tokens": 50_000, "cache_write_tokens": 1_500},
                "completion_tokens_details": {"reasoning_tokens": 400},
            }
        ),
    },
    "MLflow": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.chat.tokenUsage": json.dumps(
            {
                "input_tokens": 52_000,
                "output_tokens": 1_000,
                "total_tokens": 53_000,
                "cache_read_input_tokens": 50_000,
                "cache_creation_input_tokens": 1_500,
                "reasoning_tokens": 400,
            }
        ),
    },
    "LangSmith": {
        "langsmith.span.kind": "llm",
        "gen_ai.usage.input_tokens": 52_000,
        "gen_ai.usage.output_tokens": 1_000,
        "gen_ai.usage.input_token_details": '{"cache_read": 50000, "cache_creation": 1500}',
        "gen_ai.usage.output_token_details": '{"reasoning": 400}',
    },
}


@pytest.mark.parametrize("source", SAYING)
def test_a_call_with_a_cache_has_its_kinds_and_its_price(source: str) -> None:
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL}
    said = SAYING[source] if source == "OpenInference" else named | SAYING[source]
    trace = assemble([OtelSpan("t", "s", start_ns=1_760_000_000 * 10**9, attributes=said)])
    (span,) = trace.spans
    assert {name: getattr(span, name) for name in CACHED.as_fields()} == CACHED.as_fields()
    assert span.cost == pytest.approx(DOLLARS, rel=1e-12)
    assert (trace.tokens, trace.cached_tokens, trace.reasoning_tokens) == (53_000, 50_000, 400)


@pytest.mark.parametrize(
    "usage",
    [
        # Anthropic counts what is cached beside the input.
        {
            "input_tokens": 500,
            "cache_read_input_tokens": 50_000,
            "cache_creation_input_tokens": 1_500,
            "output_tokens": 1_000,
        },
        # A total that holds all kinds says the same of few cached tokens.
        {
            "input_tokens": 51_000,
            "cache_read_input_tokens": 900,
            "cache_creation_input_tokens": 100,
            "output_tokens": 1_000,
            "total_tokens": 53_000,
        },
    ],
)
def test_cached_tokens_beside_the_input_are_added_to_it(usage: dict[str, int]) -> None:
    found = read_usage(usage)
    assert (found.input_tokens, found.output_tokens) == (52_000, 1_000)


def test_what_is_kept_for_an_hour_has_its_own_rate() -> None:
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 1_000_000 // 10,
        "gen_ai.usage.output_tokens": 0,
        "gen_ai.usage.cache_creation.input_tokens": 100_000,
        "gen_ai.usage.cache_creation.ephemeral_1h_input_tokens": 100_000,
    }
    (span,) = assemble([OtelSpan("t", "s", start_ns=1_760_000_000 * 10**9, attributes=said)]).spans
    assert span.cost == pytest.approx(0.6)


@pytest.mark.parametrize(
    "usage", [{}, {"input_tokens": "many"}, {"input": "a question"}, {"prompt_tokens_details": 3}]
)
def test_what_was_not_counted_is_unknown(usage: dict[str, Any]) -> None:
    assert read_usage(usage) == TokenCounts()
