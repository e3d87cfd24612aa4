"""Custom scorers: the examples of the trace scorer document in Python.

    tally score traces.jsonl --scorer examples/trace_scorers.py:word_count

Most of these are built in, with more care for edge cases; here they show how to write scorers.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tallymark.scoring import EvalContext, Score, Scorer, composite, configurable, scorer


# The basics: a function of the context.
@scorer(name="my-scorer", description="Evaluates something specific", data_type="numeric")
def my_scorer(ctx: EvalContext) -> Score:  # noqa: ARG001 (your scoring logic looks at it)
    return Score(0.85, reason="Explanation of the score")


@scorer(description="Evaluates response length")
def word_count(ctx: EvalContext) -> Score:
    words = len(ctx.output.split())
    if words < 20:
        value = words / 20
    elif words <= 200:
        value = 1.0
    else:
        value = max(0.0, 1 - (words - 200) / 300)
    return Score(value, f"Response has {words} words", {"word_count": words})


# A function that makes scorers.
def regex_scorer(pattern: str, name: str = "regex_match") -> Scorer:
    compiled = re.compile(pattern)

    @scorer(name=name, description=f"Matches pattern: {pattern}", data_type="boolean")
    def matches(ctx: EvalContext) -> Score:
        found = compiled.search(ctx.output) is not None
        return Score(found, "Pattern matched" if found else "Pattern not found")

    return matches


has_email = regex_scorer(r"\b[\w.-]+@[\w.-]+\.\w+\b", name="has_email")


@scorer(description="Evaluates response sentiment")
def sentiment(ctx: EvalContext) -> Score:
    output = ctx.output.lower()
    positive = sum(w in output for w in ("great", "excellent", "good", "helpful", "thanks"))
    negative = sum(w in output for w in ("bad", "terrible", "wrong", "error", "fail"))
    if positive + negative == 0:
        return Score(0.5, "Neutral sentiment")
    value = positive / (positive + negative)
    return Score(
        value,
        f"Sentiment: {'positive' if value > 0.5 else 'negative'}",
        {"positive_count": positive, "negative_count": negative},
    )


# Calling a service. The document gives 0 if the call fails; `Score.failed(...)` would avoid that
# a broken service lowers the mean of an agent.
@configurable(description="Verifies facts using external API")
def fact_check(
    url: str = "https://api.factcheck.example/verify",
) -> Callable[[EvalContext], Awaitable[Score]]:
    async def evaluate(ctx: EvalContext) -> Score:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, json={"text": ctx.output}) as response,
            ):
                result = await response.json(content_type=None)
            return Score(result["accuracy"], result["explanation"], {"claims": result["claims"]})
        except Exception as error:  # noqa: BLE001 (whatever happens becomes the reason)
            return Score(0.0, f"Fact check failed: {error}")

    return evaluate


@scorer(description="Validates tool call parameters")
def tool_params(ctx: EvalContext) -> Score:
    calls = ctx.trace.tool_calls
    if not calls:
        return Score(0.0, "No tool calls found")
    issues = []
    for call in calls:
        params = json.loads(call.tool_input or "{}")
        if call.tool_name == "search" and not params.get("query"):
            issues.append("search: missing query parameter")
    valid = len(calls) - len(issues)
    return Score(valid / len(calls), "; ".join(issues) or "All tool calls valid")


quality = composite([(word_count, 0.3), (sentiment, 0.3), (tool_params, 0.4)], name="quality")


# Best practice 1: handle edge cases.
@scorer(description="Score 0 for an empty output, else 1")
def not_empty(ctx: EvalContext) -> Score:
    if not ctx.output.strip():
        return Score(0.0, "Empty output")
    return Score(1.0, "Has an output")


# Best practice 2: provide meaningful reasons.
@scorer(description="The share of the words of a weather report in the output")
def weather_words(ctx: EvalContext) -> Score:
    expected = ["city", "sky", "wind", "temperature"]
    missing = [word for word in expected if word not in ctx.output]
    found = len(expected) - len(missing)
    value = found / len(expected)
    without = ", ".join(f'"{word}"' for word in missing) or "none"
    return Score(
        value, f"Score {value:g}: Found {found} of 4 expected keywords (missing: {without})"
    )


# Best practice 3: use metadata for debugging.
@scorer(description="Evaluates the output against two patterns")
def patterns(ctx: EvalContext) -> Score:
    started = time.perf_counter()
    known = {"year": r"\b\d{4}\b", "price": r"\$\d+"}
    matched = [name for name, pattern in known.items() if re.search(pattern, ctx.output)]
    metadata = {
        "input": ctx.trace.metadata,
        "output_length": len(ctx.output),
        "matched_patterns": matched,
        "processing_ms": (time.perf_counter() - started) * 1000,
    }
    return Score(len(matched) / len(known), "Evaluation complete", metadata)


# Best practice 4: make scorers configurable. The options are checked against their types.
@configurable
def keyword_match(
    keywords: list[str], case_sensitive: bool = False, min_match: int = 1
) -> Callable[[EvalContext], Score]:
    """Share of keywords in the output, or 0 if fewer than `min_match` are found."""

    def evaluate(ctx: EvalContext) -> Score:
        output, wanted = ctx.output, keywords
        if not case_sensitive:
            output, wanted = output.lower(), [word.lower() for word in keywords]
        matched = sum(word in output for word in wanted)
        value = matched / len(keywords)
        return Score(
            value if value >= min_match / len(keywords) else 0.0,
            f"Matched {matched}/{len(keywords)} keywords",
        )

    return evaluate


# Best practice 5: handle async errors.
def from_api(evaluate: Callable[[str], Awaitable[dict[str, Any]]]) -> Scorer:
    """Create a scorer from an async function that returns `score` and `explanation`."""

    @scorer(name="from_api")
    async def ask(ctx: EvalContext) -> Score:
        try:
            result = await evaluate(ctx.output)
            return Score(result["score"], result["explanation"])
        except Exception as error:  # noqa: BLE001 (whatever happens becomes the reason)
            return Score(0.0, f"Evaluation failed: {error}")

    return ask
