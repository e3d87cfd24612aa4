from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.models.model_conformance import FULL, UNICODE, request

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Answer, Message, Request, open_model
from tallymark.models.answer_recorder import RecordedModel


class Canned:
    """Gives the same answer to all, but for its number."""

    name = "canned"

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.closed = 0

    async def answer(self, request: Request) -> Answer:
        await asyncio.sleep(0)
        if request.prompt == "fail":
            raise ModelError("no")
        return msgspec.structs.replace(self._answer, output=f"{request.prompt} {request.epoch}")

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("canned", [FULL, Answer(output="", latency=0.5)], ids=["full", "bare"])
def test_what_is_recorded_is_replayed(tmp_path: Path, canned: Answer) -> None:
    path = tmp_path / "new folder" / "record.jsonl"
    conversation = Request(
        messages=(
            Message("system", "be brief"),
            Message("user", "hi"),
            Message("assistant", "yes?"),
            Message("user", UNICODE),
        )
    )
    requests = [request("hi", epoch) for epoch in (2, 0, 1)] + [request("bye"), conversation]

    async def recorded_and_replayed() -> None:
        model = RecordedModel(Canned(canned), path)
        recorded = [await model.answer(each) for each in requests]
        await model.close()
        replay = open_model(f"replay/{path}")
        replayed = [await replay.answer(each) for each in requests]
        if canned.input_tokens is None:  # a replay counts what was not counted
            unknown = {"input_tokens": None, "output_tokens": None, "tokens_counted_by": None}
            replayed = [msgspec.structs.replace(each, **unknown) for each in replayed]
        assert replayed == recorded

    asyncio.run(recorded_and_replayed())


def test_many_at_once_give_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"

    async def recorded() -> None:
        models = [RecordedModel(Canned(FULL), path) for _ in range(3)]
        asked = [model.answer(request(str(n))) for n in range(50) for model in models]
        await asyncio.gather(*asked)
        for model in models:
            await model.close()

    asyncio.run(recorded())
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(line["prompt"] for line in lines) == sorted([str(n) for n in range(50)] * 3)


def test_errors_are_not_recorded(tmp_path: Path) -> None:
    async def failing() -> None:
        model = RecordedModel(Canned(FULL), tmp_path / "a.jsonl")
        with pytest.raises(ModelError):
            await model.answer(request("fail"))
        await model.close()

    asyncio.run(failing())
    assert (tmp_path / "a.jsonl").read_bytes() == b""


def test_a_line_that_someone_left_open_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"prompt": "old", "output": "x"}')

    async def recorded() -> None:
        model = open_model("echo/x", record=path)
        await model.answer(request("new"))
        await model.close()
        replay = open_model(f"replay/{path}")
        assert (await replay.answer(request("old"))).output == "x"
        assert (await replay.answer(request("new"))).output == "new"

    asyncio.run(recorded())


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"answers cannot be recorded in .*: Is a directory"):
        open_model("echo/x", record=tmp_path)


def test_a_full_disk_leaves_whole_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    program = f"""
import asyncio, resource, signal
from tallymark.errors import WorkFailed
from tallymark.models import Message, Request, open_model
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

async def main():
    model = open_model("echo/x", record={str(path)!r})
    for number in range(100):
        await model.answer(Request(messages=(Message("user", f"number {{number}}"),)))

try:
    asyncio.run(main())
except WorkFailed as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "answers cannot be recorded in" in said
    assert path.stat().st_size > 500
    assert all(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def test_closing_closes_the_model(tmp_path: Path) -> None:
    canned = Canned(FULL)
    asyncio.run(RecordedModel(canned, tmp_path / "a.jsonl").close())
    assert canned.closed == 1
