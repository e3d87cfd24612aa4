"""The judge's model of pydantic-ai: making it, asking it, and what its answer cost.

Loads pydantic-ai.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from genai_prices import calc_price
from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, infer_model

from tallymark.errors import ScorerError, WorkFailed
from tallymark.judging.judge_model import JudgeAnswer, one_line
from tallymark.scoring.scorer_options import check_url, read_api_key

if TYPE_CHECKING:
    from tallymark.judging.judge_model import JudgeModel


def make_model(judge: JudgeModel) -> Model:
    """A model of its own for a name or an address; the user's model as it is."""
    if not isinstance(judge.model, str):
        given: Model = judge.model
        return given
    if judge.is_address:
        return _make_model_at(judge)
    return infer_model(judge.model if ":" in judge.model else judge.model.replace("/", ":", 1))


async def ask_model(judge: JudgeModel, model: Model, instructions: str, prompt: str) -> JudgeAnswer:
    """The model's answer; whatever keeps it from one is a WorkFailed."""
    request = ModelRequest(parts=[UserPromptPart(prompt)], instructions=instructions)
    try:
        async with asyncio.timeout(judge.seconds), model:
            response = await model_request(model, [request])
    except TimeoutError:
        raise WorkFailed(f"the judge did not answer in {judge.seconds:g} s") from None
    except Exception as error:  # noqa: BLE001 (each provider's library has its own)
        raise WorkFailed(f"the judge could not be asked: {one_line(error)}") from None
    usage = response.usage
    return JudgeAnswer(
        response.text or "",
        response.model_name,
        usage.input_tokens or None,
        usage.output_tokens or None,
        _find_cost(judge, response) if usage.input_tokens else None,
    )


def _find_cost(judge: JudgeModel, response: ModelResponse) -> float | None:
    """US dollars by the provider's word or the price table, never by another one's prices."""
    reported = getattr(response.usage, "cost", None)
    if reported is not None:
        return float(reported)
    name = response.model_name or ""
    try:
        if judge.is_address:
            price = calc_price(response.usage, name, provider_api_url=judge.model)
        else:
            price = response.cost()
    except (LookupError, ValueError, AssertionError):
        return None
    return float(price.total_price)


def _make_model_at(judge: JudgeModel) -> Model:
    # OpenAI's library is needed for addresses alone.
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    check_url(judge.model, "llm_judge")
    if judge.model_name is None:
        raise ScorerError("llm_judge: `model` is an address, so `model_name` is needed too")
    # A key is always given: without one the library would send OPENAI_API_KEY to any address.
    key = read_api_key(judge.api_key_env, "llm_judge") or "none"
    base = judge.model.rstrip("/").removesuffix("/chat/completions")
    return OpenAIChatModel(judge.model_name, provider=OpenAIProvider(base, key))
