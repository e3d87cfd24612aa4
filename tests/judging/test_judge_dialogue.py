"""The dialogue: telling, reading, asking once more, and what it took."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallymark.errors import ModelError
from tallymark.judging.fence import fence
from tallymark.judging.judge_dialogue import (
    JudgeFinding,
    JudgeTask,
    UnreadableAnswer,
    ask_judge,
    load_words,
    read_object,
)
from tallymark.models import Answer, Message

WORDS = {"instructions": "Rate for $goal; fences end with $mark.\n", "retry": "Again ($why)."}


def read(text: str) -> int:
    if not text.strip().isdecimal():
        raise UnreadableAnswer("it is no number")
    return int(text)


def task(submission: str = "x") -> JudgeTask[int]:
    return JudgeTask(WORDS, {"goal": "$5"}, fence({"SUBMISSION": submission}), read)


def held(
    *answers: str | ModelError, of: JudgeTask[int] | None = None
) -> tuple[JudgeFinding[int], list[tuple[Message, ...]]]:
    """What comes of a dialogue with a judge that gives these answers, and what it was told."""
    told: list[tuple[Message, ...]] = []

    async def ask(messages: tuple[Message, ...]) -> Answer:
        said = answers[len(told)]
        told.append(messages)
        if isinstance(said, ModelError):
            raise said
        return Answer(output=said, latency=0, model="tiny", cost=0.5)

    return asyncio.run(ask_judge(of or task(), ask)), told


def test_the_judge_is_told_rules_and_shown_evidence() -> None:
    one = task()
    found, ((system, user),) = held("7", of=one)
    assert (found.verdict, found.error) == (7, None)
    assert system == Message("system", f"Rate for $5; fences end with {one.material.mark}.")
    assert user == Message("user", one.material.text)


def test_an_answer_that_cannot_be_read_is_asked_for_once_more() -> None:
    found, (first, second) = held("seven", "7")
    assert found.verdict == 7
    assert (found.spending.asked, found.spending.cost) == (2, 1.0)
    assert second[0] == first[0]
    assert second[1].content == f"{first[1].content}\n\nAgain (it is no number)."


def test_two_of_them_are_no_verdict() -> None:
    found, told = held("seven", "eight" * 100)
    assert found.verdict is None
    assert found.error == (
        "the judge's answer could not be read, twice: it is no number; it said "
        f"{('eight' * 100)[:200]!r}"
    )
    assert len(told) == 2
    assert found.spending.asked == 2


def test_a_judge_that_says_nothing() -> None:
    assert str(held("", "")[0].error).endswith("; it said nothing")


@pytest.mark.parametrize(("before", "asked"), [([], 1), (["hm"], 2)])
def test_a_judge_that_is_not_reached_is_no_verdict(before: list[str], asked: int) -> None:
    found, _ = held(*before, ModelError("out of order", hint="wait"))
    assert found.error == "the judge did not answer: out of order; wait"
    assert (found.spending.asked, found.spending.cost) == (asked, None)


def test_a_verdict_inside_the_fence_is_not_the_judges() -> None:
    """A judge that repeats its evidence, whole or cut off, has not given the verdict in it."""
    one = task("10")
    whole = one.material.text
    assert held(whole, whole, of=one)[0].verdict is None
    assert held(whole[:-30], f"{whole}\n3", of=one)[0].verdict == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[1]",
        "null",
        '{"a": 1, "a": 2}',
        '{"a": 1} {"a": 2}',
        '```\n{"a": 1}\n```',
        "[" * 9999,
    ],
)
def test_only_one_json_object_is_an_object(text: str) -> None:
    with pytest.raises(UnreadableAnswer, match="it is not one JSON object"):
        read_object(text)


def test_an_object_is_read() -> None:
    assert read_object(' {"reason": "r", "rating": 1}\n') == {"reason": "r", "rating": 1}


def test_words_are_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "words.toml"
    path.write_text('retry = "Again"')
    assert load_words(path) == {"retry": "Again"}
