from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.model_conformance import FULL, UNICODE, request

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Answer, McpServer, Message, Request, open_model
from tallymark.models.answer_cache import CachedModel
from tallymark.models.token_prices import Pricing


class Counting:
    """Answers with how often it was asked, and fails when told."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.asked: Counter[str] = Counter()
        self.closed = 0

    async def answer(self, request: Request) -> Answer:
        self.asked[request.prompt] += 1
        if request.prompt == "fail":
            raise ModelError("no")
        return msgspec.structs.replace(FULL, output=f"{request.prompt} {self.asked.total()}")

    async def close(self) -> None:
        self.closed += 1


def outputs(path: Path, *asked: tuple[Counting, Pricing | None, Request]) -> list[str]:
    async def asking() -> list[str]:
        found = []
        for model, pricing, what in asked:
            cached = CachedModel(model, path, pricing)
            found.append((await cached.answer(what)).output)
            await cached.close()
        return found

    return asyncio.run(asking())


def test_a_hit_is_the_same_answer_marked_as_cached(tmp_path: Path) -> None:
    async def twice() -> tuple[Answer, Answer]:
        cached = CachedModel(Counting(), tmp_path / "new" / "cache.db")
        try:
            return await cached.answer(request(UNICODE)), await cached.answer(request(UNICODE))
        finally:
            await cached.close()

    first, second = asyncio.run(twice())
    assert not first.cached
    assert second == msgspec.structs.replace(first, cached=True)


def test_hits_outlive_the_process_that_asked(tmp_path: Path) -> None:
    model = Counting()
    asked = (model, None, request("hi"))
    assert outputs(tmp_path / "c.db", asked, asked, asked) == ["hi 1", "hi 1", "hi 1"]
    assert model.asked["hi"] == 1


@pytest.mark.parametrize(
    "other",
    [
        Request(messages=(Message("user", "bye"),)),
        Request(messages=(Message("system", "be brief"), Message("user", "hi"))),
        Request(messages=(Message("user", "hi"),), epoch=1),
        Request(messages=(Message("user", "hi"),), settings={"temperature": 1}),
        Request(messages=(Message("user", "hi"),), mcp_servers=(McpServer(url="http://x"),)),
    ],
    ids=["prompt", "system", "epoch", "settings", "mcp"],
)
def test_all_that_could_change_an_answer_is_part_of_the_key(tmp_path: Path, other: Request) -> None:
    model = Counting()
    outputs(tmp_path / "c.db", (model, None, request("hi")), (model, None, other))
    assert model.asked.total() == 2


def test_the_order_of_settings_does_not_matter(tmp_path: Path) -> None:
    def asked(settings: dict[str, Any]) -> Request:
        return Request(messages=(Message("user", "hi"),), settings=settings)

    model = Counting()
    orders = (asked({"a": 1, "b": 2}), asked({"b": 2, "a": 1}))
    outputs(tmp_path / "c.db", *((model, None, each) for each in orders))
    assert model.asked.total() == 1


def test_other_models_and_other_prices_have_answers_of_their_own(tmp_path: Path) -> None:
    one, two = Counting("one"), Counting("two")
    hi = request("hi")
    outputs(tmp_path / "c.db", (one, None, hi), (two, None, hi), (one, Pricing(1, 1), hi))
    assert (one.asked["hi"], two.asked["hi"]) == (2, 1)


def test_errors_are_asked_again(tmp_path: Path) -> None:
    async def failing() -> int:
        model = Counting()
        cached = CachedModel(model, tmp_path / "c.db")
        for _ in range(2):
            with pytest.raises(ModelError):
                await cached.answer(request("fail"))
        await cached.close()
        return model.asked["fail"]

    assert asyncio.run(failing()) == 2


def test_many_at_once_share_one_file(tmp_path: Path) -> None:
    async def many() -> list[Answer]:
        models = [CachedModel(Counting(), tmp_path / "c.db") for _ in range(4)]

        async def all_at_once() -> list[Answer]:
            asked = [model.answer(request(str(n))) for n in range(40) for model in models]
            return await asyncio.gather(*asked)

        await all_at_once()
        answers = await all_at_once()
        for model in models:
            await model.close()
        return answers

    assert all(answer.cached for answer in asyncio.run(many()))


def test_a_killed_process_leaves_a_file_that_works(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    program = f"""
import asyncio, itertools
from tallymark.models import Message, Request, open_model
async def main():
    model = open_model("echo/x", cache={str(path)!r})
    for number in itertools.count():
        await model.answer(Request(messages=(Message("user", str(number)),)))
        print(number, flush=True)
asyncio.run(main())
"""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(20):
                last = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)

    async def again() -> list[bool]:
        model = open_model("echo/x", cache=path)
        answers = [await model.answer(request(str(number))) for number in range(last + 1)]
        await model.close()
        return [answer.cached for answer in answers]

    assert all(asyncio.run(again()))


def test_a_file_locked_by_another_costs_the_saving_not_the_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "c.db"

    async def locked() -> str:
        cached = CachedModel(Counting(), path)
        cached._files.get().writer.execute("PRAGMA busy_timeout=200")
        other = sqlite3.connect(path)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.create_task(cached.answer(request("hi")))
        turns = 0
        while not task.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 2, "the event loop waited for the lock"
        answer = await task
        other.close()
        await cached.close()
        return answer.output

    assert asyncio.run(locked()) == "hi 1"
    assert "could not be written: database is locked" in caplog.text


def test_a_file_that_is_no_cache_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one might have been" * 20)
    with pytest.raises(InvalidInput, match=r"the cache .*notes\.txt cannot be used"):
        open_model("echo/x", cache=path)


def test_an_answer_that_cannot_be_read_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Counting()
    outputs(tmp_path / "c.db", (model, None, request("hi")))
    with sqlite3.connect(tmp_path / "c.db") as file:
        file.execute("UPDATE answers SET answer = 'x'")
    file.close()
    assert outputs(tmp_path / "c.db", (model, None, request("hi"))) == ["hi 2"]
    assert "could not be read" in caplog.text


def test_loops_one_after_the_other_and_at_once_share_one_model(tmp_path: Path) -> None:
    """Each closes what is its own; the others, and later ones, go on."""
    model = Counting()
    cached = CachedModel(model, tmp_path / "c.db")

    async def ask(prompt: str) -> str:
        try:
            return (await cached.answer(request(prompt))).output
        finally:
            await cached.close()

    assert [asyncio.run(ask("hi")) for _ in range(3)] == ["hi 1"] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: asyncio.run(ask(f"p{n % 4}")), range(40)))
    assert [each.split()[0] for each in found] == [f"p{n % 4}" for n in range(40)]


def test_closing_closes_the_model(tmp_path: Path) -> None:
    model = Counting()
    cached = CachedModel(model, tmp_path / "c.db")
    asyncio.run(cached.close())
    asyncio.run(cached.close())
    assert model.closed == 2
