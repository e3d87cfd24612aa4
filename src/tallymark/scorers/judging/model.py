"""Reaching the judge: a model of any provider through pydantic-ai, or a function of the user's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tallymark.errors import ScorerError, WorkFailed
from tallymark.models.loop_local import LoopLocal, LoopTurns
from tallymark.scorers.demand import api_key, check_url
from tallymark.scoring.score import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model


class Answer(msgspec.Struct, frozen=True):
    """What a judge said, and what that took; None where it is not known."""

    text: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


Ask: TypeAlias = Callable[[str, str], Awaitable[Answer]]
"""From instructions and prompt to the answer."""


class JudgeModel(msgspec.Struct, frozen=True):
    """Which model judges, and how it is reached."""

    model: Any
    """`provider:name`, the base address of an OpenAI-compatible API, or a pydantic-ai model."""
    model_name: str | None
    """The name of the model at an address."""
    api_key_env: str | None
    seconds: float

    def connected(self) -> Ask:
        """What asks the model. A library, key or name that is missing shows here and not later.

        There is one model for each event loop: connections belong to the loop they began in. A
        model that the user made is the only one there is, so loops take turns with it.
        """
        models = LoopLocal(self._made, first=self._made())
        turns = nullcontext() if isinstance(self.model, str) else LoopTurns()

        async def ask(instructions: str, prompt: str) -> Answer:
            async with turns:
                return await self._answer(models.get(), instructions, prompt)

        return ask

    async def _answer(self, model: Model, instructions: str, prompt: str) -> Answer:
        from pydantic_ai.direct import model_request  # noqa: PLC0415 (heavy)
        from pydantic_ai.messages import ModelRequest, UserPromptPart  # noqa: PLC0415 (heavy)

        request = ModelRequest(parts=[UserPromptPart(prompt)], instructions=instructions)
        try:
            async with asyncio.timeout(self.seconds), model:
                response = await model_request(model, [request])
        except TimeoutError:
            raise WorkFailed(f"the judge did not answer in {self.seconds:g} s") from None
        except Exception as error:  # noqa: BLE001 (each provider's library has its own)
            raise WorkFailed(f"the judge could not be asked: {_one_line(error)}") from None
        return self._read(response)

    def _read(self, response: ModelResponse) -> Answer:
        usage = response.usage
        return Answer(
            response.text or "",
            response.model_name,
            usage.input_tokens or None,
            usage.output_tokens or None,
            self._cost(response) if usage.input_tokens else None,
        )

    def _cost(self, response: ModelResponse) -> float | None:
        """US dollars by the provider's word or the price table, never by another one's prices."""
        from genai_prices import calc_price  # noqa: PLC0415 (heavy)

        reported = getattr(response.usage, "cost", None)
        if reported is not None:
            return float(reported)
        name = response.model_name or ""
        try:
            if self._is_address:
                price = calc_price(response.usage, name, provider_api_url=self.model)
            else:
                price = response.cost()
        except (LookupError, ValueError, AssertionError):
            return None
        return float(price.total_price)

    @property
    def _is_address(self) -> bool:
        return isinstance(self.model, str) and "://" in self.model

    def _made(self) -> Model:
        if not isinstance(self.model, str):
            if not hasattr(self.model, "request"):
                raise ScorerError(f"llm_judge: {shown(self.model)} is not a pydantic-ai model")
            model: Model = self.model
            return model
        with _explained(self.model):
            if self._is_address:
                return self._at_address()
            from pydantic_ai.models import infer_model  # noqa: PLC0415 (heavy)

            return infer_model(self.model if ":" in self.model else self.model.replace("/", ":", 1))

    def _at_address(self) -> Model:
        from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 (heavy)
        from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 (heavy)

        check_url(self.model, "llm_judge")
        if self.model_name is None:
            raise ScorerError("llm_judge: `model` is an address, so `model_name` is needed too")
        # A key is always given: without one the library would send OPENAI_API_KEY to any address.
        key = api_key(self.api_key_env, "llm_judge") or "none"
        base = self.model.rstrip("/").removesuffix("/chat/completions")
        return OpenAIChatModel(self.model_name, provider=OpenAIProvider(base, key))


@contextmanager
def _explained(model: str) -> Iterator[None]:
    """Turn what pydantic-ai says about a model that cannot be made into our own errors."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise WorkFailed(f"llm_judge: {_one_line(error)}") from None  # says what to install
        raise WorkFailed(
            "llm_judge needs pydantic-ai to reach a model",
            hint='install it with pip install "pydantic-ai-slim[openai]", or the provider you use',
        ) from None
    except (ScorerError, WorkFailed):
        raise
    except Exception as error:  # noqa: BLE001 (unknown name, missing key, refused option)
        said = _one_line(error).partition(" To try Pydantic AI")[0]
        raise ScorerError(f"llm_judge cannot use the model {model!r}: {said}") from None


def _one_line(error: BaseException) -> str:
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 500 else f"{said[:497]}..."
