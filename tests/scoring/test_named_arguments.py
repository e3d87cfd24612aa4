from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, configurable, scorer
from tallymark.testing import mock_context

CTX = mock_context("Paris", input="Capital?", expected={"output": "Paris"}, metadata={"tag": "x"})


def of_answer(output: str) -> bool:
    return output == "Paris"


def of_both(output: str, expected: str) -> bool:
    return output == expected


def of_much(*, input: str, metadata: dict[str, Any], trace: Any, spans: Any) -> bool:  # noqa: A002
    return (input, metadata["tag"], list(trace.spans)) == ("Capital?", "x", list(spans))


def with_default(output: str, most: int = 5) -> bool:
    return len(output) <= most


def of_context_too(expected: str, ctx: EvalContext) -> bool:
    return bool(ctx.output == expected)


def of_context(anything: EvalContext, most: int = 5) -> bool:
    return len(anything.output) <= most


class Judge:
    def evaluate(self, output: str, expected: str) -> bool:
        return output == expected


@pytest.mark.parametrize(
    "function", [of_answer, of_both, of_much, with_default, of_context_too, of_context]
)
def test_a_function_gets_what_it_names(function: Any) -> None:
    made = scorer(function)
    assert made.name == function.__name__
    assert made.score(CTX).value == 1.0
    assert made(CTX) is True
    assert made.replace(name="again").score(CTX).value == 1.0
    assert asyncio.run(made.evaluate(CTX)).value == 1.0


def test_so_do_async_functions_classes_and_functions_of_options() -> None:
    @scorer
    async def waits(output: str, expected: str) -> bool:
        return output == expected

    @configurable
    def starts(text: str) -> Any:
        return lambda output: output.startswith(text)

    assert waits.is_async
    assert asyncio.run(waits.evaluate(CTX)).value == 1.0
    judge: Any = scorer(Judge)
    assert judge().score(CTX).value == 1.0
    assert starts("Pa").score(CTX).value == 1.0


def test_a_name_that_no_scorer_is_given_is_refused() -> None:
    with pytest.raises(ScorerError, match="asks for 'answer', which no scorer is given"):
        scorer(name="x")(lambda output, answer: True)
    with pytest.raises(ScorerError, match="asks for 'answer', which no scorer is given"):
        scorer(name="x")(lambda answer, output: True)


def test_what_raises_is_called_again_as_often_as_said() -> None:
    calls = []

    @scorer(retries=2)
    def flaky(ctx: EvalContext) -> float:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("down")
        return 1.0

    assert flaky.score(CTX).value == 1.0
    calls.clear()
    said = flaky.replace(retries=1).score(CTX).error or ""
    assert said.startswith("flaky raised ConnectionError: down (at test_named_arguments.py:")
    assert len(calls) == 2


def test_so_is_what_raises_while_it_is_awaited() -> None:
    calls = []

    @scorer(retries=1)
    async def flaky(output: str) -> float:
        calls.append(output)
        if len(calls) < 2:
            raise ConnectionError("down")
        return 1.0

    assert asyncio.run(flaky.evaluate(CTX)).value == 1.0


@pytest.mark.parametrize("retries", [-1, 1.5, True, "2", None, 1000])
def test_a_number_of_retries_that_makes_no_sense_is_refused(retries: Any) -> None:
    with pytest.raises(ScorerError, match="retries is"):
        scorer(retries=retries)(of_answer)
