"""The model that judges: opened before it is needed, asked from anywhere, closed with the loop."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import InvalidInput, ModelError, ScorerError, WorkFailed
from tallymark.judging.judge_model import (
    OPEN_JUDGES,
    JudgeModel,
    accept_judge,
    load_judges,
    open_judge,
)
from tallymark.models import Answer, Message, Request, retries

ASKED = (Message("system", "Judge."), Message("user", "It."))


class Watched:
    """A model that knows which loop asked it, and which closed it."""

    name = "watched"

    def __init__(self, fails: int = 0) -> None:
        self.asked: list[Request] = []
        self.closed: Counter[int] = Counter()
        self.fails = fails
        self.most = self.now = 0

    async def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if len(self.asked) <= self.fails:
            raise ModelError("busy", retryable=True)
        return Answer(output=request.prompt, latency=0)

    async def close(self) -> None:
        self.closed[id(asyncio.get_running_loop())] += 1


def ask(judge: JudgeModel, times: int = 1, **options: Any) -> list[str]:
    async def all_of_them() -> list[Answer]:
        return await asyncio.gather(*(judge.ask(ASKED, seconds=5, **options) for _ in range(times)))

    return [each.output for each in asyncio.run(all_of_them())]


def test_a_judge_gets_its_instructions_and_settings() -> None:
    model = Watched()
    assert ask(JudgeModel(model), settings={"temperature": 0}) == ["It."]
    assert model.asked == [Request(messages=ASKED, settings={"temperature": 0})]


class Slow(Watched):
    """A model that takes a while to load."""

    loaded = 0

    def load(self) -> None:
        self.loaded += 1


def test_all_open_judges_are_loaded() -> None:
    slow, plain, gone = Slow(), Watched(), Slow()
    judges = [JudgeModel(slow), JudgeModel(plain), JudgeModel(gone)]
    del judges[2]
    load_judges()
    assert (slow.loaded, gone.loaded) == (1, 0)
    assert set(judges) <= OPEN_JUDGES


def test_a_failure_that_may_pass_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_WAIT", 0.001)
    model = Watched(fails=2)
    assert ask(JudgeModel(model)) == ["It."]
    assert len(model.asked) == 3


def test_no_more_are_on_their_way_than_allowed() -> None:
    model = Watched()
    ask(JudgeModel(model, at_once=3), times=20)
    assert model.most == 3


def test_it_is_closed_once_by_every_loop_that_asked() -> None:
    """By nobody else: whoever holds a judge need not know when its last question was asked."""
    model = Watched()
    judge = JudgeModel(model)
    for _ in range(3):
        ask(judge, times=4)
    assert sum(model.closed.values()) == 3


def test_it_is_closed_when_asking_failed_too() -> None:
    model = Watched(fails=1)
    with pytest.raises(ModelError, match="busy"):
        ask(JudgeModel(model), tries=1)
    assert sum(model.closed.values()) == 1


def test_threads_may_share_it() -> None:
    judge = JudgeModel(Watched())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask(judge, times=3), range(40)))
    assert found == [["It."] * 3] * 40


@pytest.mark.parametrize(
    "reference", ["echo/judge", "cmd/cat", "python/{here}/own.py:judge", "replay/{here}/own.jsonl"]
)
def test_whatever_a_run_takes_can_judge(tmp_path: Path, reference: str) -> None:
    (tmp_path / "own.py").write_text("def judge(prompt):\n    return prompt\n")
    (tmp_path / "own.jsonl").write_text('{"prompt": "It.", "output": "It."}\n')
    assert ask(open_judge(reference.format(here=tmp_path))) == ["It."]


def test_files_are_looked_for_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"prompt": "It.", "output": "Fine."}\n')
    assert ask(open_judge("replay/own", folder=tmp_path)) == ["Fine."]


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("gpt-5", "'gpt-5' does not name a model"),
        ("opnai/gpt-5", "'opnai' is not a kind of model or a provider; did you mean 'openai'?"),
        ("replay/lost", "there are no answers 'lost' to replay"),
        ("python/lost.py:judge", "lost.py"),
        ("openai/gpt-5", "openai/gpt-5 needs an API key; set OPENAI_API_KEY"),
        ("http://", "'http://' is not an address"),
    ],
)
def test_what_cannot_be_reached_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, sentence: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidInput, match=re.escape(sentence)) as caught:
        open_judge(reference, folder=tmp_path)
    assert len(caught.value.problems) == 1


def test_a_key_that_was_named_must_be_there() -> None:
    with pytest.raises(WorkFailed, match="NO_SUCH_KEY is not set"):
        open_judge("http://host/v1", api_key_env="NO_SUCH_KEY")


def test_what_is_recorded_once_can_be_replayed_and_what_is_cached_is_not_asked(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(
        "count = 0\ndef judge(prompt):\n    global count\n    count += 1\n    return f'{count}'\n"
    )
    reference, cache = f"python/{tmp_path}/own.py:judge", tmp_path / "cache.db"
    judge = open_judge(reference, record=tmp_path / "both.jsonl", cache=cache)
    assert [ask(judge), ask(judge)] == [["1"], ["1"]]
    assert ask(open_judge("replay/both", folder=tmp_path)) == ["1"]


def test_an_open_judge_is_taken_as_it_is() -> None:
    judge = open_judge("echo/judge")
    assert accept_judge(judge) is judge


@pytest.mark.parametrize("model", [42, None, object()])
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(ScorerError, match="is not a pydantic-ai model"):
        accept_judge(model)
