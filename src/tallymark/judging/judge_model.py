"""Reaching the judge: a model of any provider through pydantic-ai, or a function of the user's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tallymark.errors import ScorerError, WorkFailed
from tallymark.models.loop_local import LoopLocal, LoopTurns
from tallymark.scoring.score import show_value
from tallymark.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_ai.models import Model


class JudgeAnswer(msgspec.Struct, frozen=True):
    """What a judge said, and what that took; None where it is not known."""

    text: str
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None


AskJudge: TypeAlias = Callable[[str, str], Awaitable[JudgeAnswer]]
"""From instructions and prompt to the answer."""


class JudgeModel(msgspec.Struct, frozen=True):
    """Which model judges, and how it is reached."""

    model: Any
    """`provider:name`, the base address of an OpenAI-compatible API, or a pydantic-ai model."""
    model_name: str | None
    """The name of the model at an address."""
    api_key_env: str | None
    seconds: float

    @property
    def is_address(self) -> bool:
        """Whether `model` is an address, and not a provider's name or a model."""
        return isinstance(self.model, str) and "://" in self.model

    def connect(self) -> AskJudge:
        """What asks the model. A library, key or name that is missing shows here and not later.

        There is one model for each event loop: connections belong to the loop they began in. A
        model that the user made is the only one there is, so loops take turns with it.
        """
        with _explain_failure(self.model):
            if not isinstance(self.model, str) and not hasattr(self.model, "request"):
                raise ScorerError(f"llm_judge: {show_value(self.model)} is not a pydantic-ai model")
            from tallymark.judging.pydantic_ai_judge import ask_model, make_model  # noqa: PLC0415 (heavy)

            first = make_model(self)

        def make() -> Model:
            with _explain_failure(self.model):
                return make_model(self)

        models = LoopLocal(make, first=first)
        turns = nullcontext() if isinstance(self.model, str) else LoopTurns()

        async def ask(instructions: str, prompt: str) -> JudgeAnswer:
            async with turns:
                return await ask_model(self, models.get(), instructions, prompt)

        return ask


@contextmanager
def _explain_failure(model: object) -> Iterator[None]:
    """Turn what pydantic-ai says about a model that cannot be made into our own errors."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "pydantic_ai":
            raise WorkFailed(f"llm_judge: {one_line(error)}") from None  # says what to install
        raise WorkFailed(
            "llm_judge needs pydantic-ai to reach a model",
            hint='install it with pip install "pydantic-ai-slim[openai]", or the provider you use',
        ) from None
    except (ScorerError, WorkFailed):
        raise
    except Exception as error:  # noqa: BLE001 (unknown name, missing key, refused option)
        said = one_line(error).partition(" To try Pydantic AI")[0]
        raise ScorerError(f"llm_judge cannot use the model {model!r}: {said}") from None


def one_line(error: BaseException) -> str:
    """What an exception says, as one line of a length to read."""
    said = " ".join(str(error).split()) or type(error).__name__
    return shorten(said, 500)
