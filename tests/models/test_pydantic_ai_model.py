"""A model of pydantic-ai that the user made."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from tallymark.errors import ModelError
from tallymark.models import Answer, Message, Request
from tallymark.models.pydantic_ai_model import PydanticAiModel

ASKED = Request(
    messages=(Message("system", "Be brief."), Message("user", "Hi.")), settings={"temperature": 0.5}
)


def ask(model: PydanticAiModel) -> Answer:
    return asyncio.run(model.answer(ASKED))


def test_it_is_told_everything_and_set_as_asked() -> None:
    seen: list[tuple[list[ModelMessage], AgentInfo]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info))
        return ModelResponse(parts=[TextPart("Hello.")])

    found = ask(PydanticAiModel(FunctionModel(answer)))
    assert found.output == "Hello."
    assert found.tokens_counted_by == "provider"
    assert found.cost is None
    ((messages, info),) = seen
    assert [part.part_kind for part in messages[0].parts] == ["system-prompt", "user-prompt"]
    assert info.model_settings == {"temperature": 0.5}


def test_its_failures_say_whether_to_ask_again() -> None:
    def refuse(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(429, "tiny", {"message": "slow down"})

    with pytest.raises(ModelError, match="answered 429 Too Many Requests: slow down") as caught:
        ask(PydanticAiModel(FunctionModel(refuse)))
    assert caught.value.throttled


def test_it_serves_one_loop_after_the_other() -> None:
    model = PydanticAiModel(TestModel(custom_output_text="yes"))
    assert [ask(model).output for _ in range(3)] == ["yes"] * 3
    asyncio.run(model.close())
    assert model.name == "test:test"
