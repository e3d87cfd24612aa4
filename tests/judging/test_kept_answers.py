"""The same question has one verdict; asked otherwise in anything, it is another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.judging.test_judge_dialogue import task

from tallymark.errors import ModelError
from tallymark.judging.judge_dialogue import JudgeFinding, ask_judge
from tallymark.judging.judge_model import open_memory
from tallymark.judging.kept_answers import JudgeMemory, KeptAnswer
from tallymark.models import Answer, Message


class Answers(dict[str, KeptAnswer]):
    """An `AnswerStore`."""

    def find(self, question: str) -> KeptAnswer | None:
        return self.get(question)

    def keep(self, question: str, answer: KeptAnswer) -> KeptAnswer:
        return self.setdefault(question, answer)


def ask(
    memory: JudgeMemory,
    *said: str | ModelError,
    submission: str = "x",
    meanwhile: Callable[[], Any] = lambda: None,
) -> JudgeFinding[int]:
    answers = list(said)

    async def answer(_: tuple[Message, ...]) -> Answer:
        meanwhile()
        given = answers.pop(0)
        if isinstance(given, ModelError):
            raise given
        return Answer(output=given, latency=0, model="tiny", cost=0.5)

    return asyncio.run(ask_judge(task(submission), answer, memory))


def test_the_same_question_is_asked_once_and_costs_once() -> None:
    memory = JudgeMemory(Answers(), "some/judge")
    first, second = ask(memory, "7"), ask(memory)
    assert (first.verdict, first.kept, first.spending.cost) == (7, False, 0.5)
    assert (second.verdict, second.kept) == (7, True)
    assert (second.spending.asked, second.spending.cost, second.spending.model) == (0, 0.0, "tiny")


def test_of_two_that_ask_at_once_both_get_the_first_verdict() -> None:
    memory = JudgeMemory(Answers(), "some/judge")

    def be_quicker() -> None:
        memory.remember(task().messages(), KeptAnswer("7", "tiny"))

    assert ask(memory, "9", meanwhile=be_quicker).verdict == 7


def test_what_was_read_at_the_second_try_is_kept() -> None:
    memory = JudgeMemory(Answers(), "some/judge")
    assert ask(memory, "seven", "7").verdict == 7
    assert ask(memory).verdict == 7


@pytest.mark.parametrize("said", [("?", "??"), (ModelError("down"),)])
def test_failures_are_not_kept(said: tuple[str | ModelError, ...]) -> None:
    memory = JudgeMemory(Answers(), "some/judge")
    assert ask(memory, *said).verdict is None
    assert ask(memory, "7").verdict == 7


@pytest.mark.parametrize(
    "other",
    [{"judge": "other/judge"}, {"version": "v2"}, {"settings": {"temperature": 1}}],
)
def test_another_judge_is_asked_for_itself(other: dict[str, Any]) -> None:
    answers = Answers()
    known: dict[str, Any] = {"judge": "some/judge", "version": "v1", "settings": {"temperature": 0}}
    ask(JudgeMemory(answers, **known), "7")
    assert ask(JudgeMemory(answers, **{**known, **other}), "9").verdict == 9


def test_another_submission_is_another_question() -> None:
    memory = JudgeMemory(Answers(), "some/judge")
    ask(memory, "7")
    assert ask(memory, "9", submission="y").verdict == 9


@pytest.mark.parametrize(
    ("model", "version"),
    [("openai/gpt-5-mini", ""), ("python/own.py:judge", "v1"), ("replay/own", "v1")],
)
def test_a_judge_made_of_files_is_another_in_another_version(model: str, version: str) -> None:
    memory = open_memory(Answers, model, version="v1")
    assert memory is not None
    assert memory.version == version
    assert open_memory(None, model, version="v1") is None
