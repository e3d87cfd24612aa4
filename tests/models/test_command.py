from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.models.model_conformance import request

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import (
    Answer,
    McpServer,
    Message,
    Pace,
    Request,
    answer_with_retries,
    open_model,
)


def ask(reference: str, asked: Request | None = None, **options: Any) -> Answer:
    return asyncio.run(open_model(reference, **options).answer(asked or request("hi")))


def test_the_prompt_comes_in_and_the_answer_goes_out() -> None:
    assert ask("cmd/tr a-z A-Z").output == "HI"


def test_words_are_split_as_in_a_shell_but_no_shell_runs() -> None:
    assert ask("cmd/printf '%s|' 'one word' $HOME '*'").output == "one word|$HOME|*|"


@pytest.mark.parametrize(
    ("printed", "output"), [("x\\n", "x"), ("x\\n\\n", "x\n"), ("  x", "  x"), ("\\n", "")]
)
def test_one_newline_at_the_end_is_the_programs_not_the_answers(printed: str, output: str) -> None:
    assert ask(f"cmd/printf '{printed}'").output == output


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert ask("cmd/printf '\\377x'").output == "\ufffdx"


def test_it_runs_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("pwd")
    assert ask("cmd/sh agent.sh", folder=tmp_path).output == str(tmp_path.resolve())


def test_the_whole_conversation_is_in_a_file() -> None:
    asked = Request(messages=(Message("system", "brief"), Message("user", "hi")))
    output = ask("cmd/sh -c 'cat $TALLY_MESSAGES'", asked).output
    assert output == '[{"role":"system","content":"brief"},{"role":"user","content":"hi"}]'


def test_tokens_are_counted_and_priced() -> None:
    answer = ask("cmd/cat", pricing={"input": 1_000_000, "output": 0})
    assert (answer.tokens_counted_by, answer.cost) == ("local", 1.0)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("cmd/sh -c 'echo one >&2; echo two >&2; exit 3'", "sh ended with exit code 3: two"),
        ("cmd/sh -c 'exit 4'", "sh ended with exit code 4"),
        ("cmd/sh -c 'kill -9 $$'", "sh was ended by signal 9"),
        ("cmd/./no-such-program", "./no-such-program cannot be started: No such file or directory"),
    ],
)
def test_a_program_that_fails_is_one_sentence(reference: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(reference)
    assert str(caught.value) == message
    assert not caught.value.retryable


def test_a_program_need_not_read_its_prompt() -> None:
    asked = request("long " * 100_000)
    assert ask("cmd/echo done", asked).output == "done"


@pytest.mark.parametrize("reference", ["cmd/echo 'open", "cmd/ ''", "cmd/#"])
def test_what_names_no_program_is_refused_or_not_found(reference: str) -> None:
    with pytest.raises((InvalidInput, ModelError)):
        ask(reference)


def test_mcp_servers_are_refused() -> None:
    asked = Request(messages=(Message("user", "x"),), mcp_servers=(McpServer(url="http://x"),))
    with pytest.raises(ModelError, match="cannot be given MCP servers"):
        ask("cmd/cat", asked)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_file_descriptor_is_left_open() -> None:
    async def asking() -> tuple[int, int]:
        model = open_model("cmd/cat")
        await model.answer(request("hi"))
        before = open_files()
        for _ in range(5):
            await model.answer(request("hi"))
            with pytest.raises(ModelError):
                await answer_with_retries(
                    open_model("cmd/sleep 100"), request("hi"), Pace(1), tries=1, timeout=0.01
                )
        return before, open_files()

    before, after = asyncio.run(asking())
    assert after == before


def test_a_child_that_left_the_group_does_not_hold_up_giving_up() -> None:
    """A program that moves into a session of its own cannot be killed with the group."""

    async def asking() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        model = open_model("cmd/sh -c 'setsid sleep 5 & wait'")
        with pytest.raises(ModelError):
            await answer_with_retries(model, request("hi"), Pace(1), tries=1, timeout=0.2)
        return loop.time() - began

    assert asyncio.run(asking()) < 3
