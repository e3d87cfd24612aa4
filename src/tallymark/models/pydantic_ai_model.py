"""A model of pydantic-ai that the user made and handed over. Loads pydantic-ai."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from tallymark.event_loops import LoopTurns, run_to_end
from tallymark.models.model import Message, Request
from tallymark.models.model_answers import finish_answer
from tallymark.models.provider_translation import ProviderSteps, make_history, translate_failure
from tallymark.models.token_count import load_tokenizer
from tallymark.models.token_prices import load_prices

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from tallymark.models.model import Answer


class PydanticAiModel:
    """One model for all event loops, which take turns because connections belong to a loop."""

    def __init__(self, model: Model) -> None:
        self.name = model.model_id
        self._model = model
        self._turns = LoopTurns()

    def load(self) -> None:
        """Load the parts that all models of pydantic-ai need."""
        load_tokenizer()
        load_prices()
        history = make_history(Request(messages=(Message("user", "Are you there?"),)))
        stand_in = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("Yes.")]))
        run_to_end(lambda: model_request(stand_in, history))

    async def answer(self, request: Request) -> Answer:
        """The model's answer; the model is open while its loop has requests."""
        conversation, steps = make_history(request), ProviderSteps(None)
        async with self._turns:
            try:
                async with self._model:
                    began = perf_counter()
                    response = await model_request(
                        self._model,
                        conversation,
                        model_settings=cast("ModelSettings", request.settings),
                    )
                    seconds = perf_counter() - began
            except Exception as error:
                raise translate_failure(self.name, error) from error
        steps.keep_model_call(conversation, response, seconds)
        return await finish_answer(request, steps.draft(response, seconds), None)

    async def close(self) -> None:
        """Do nothing: the model is closed after every answer."""
