"""Refusals of wrong tool calls."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.mcp.conftest import Hall

from mcp import Client
from tallymark.mcp.tool_server import read_answer
from tallymark.mcp.tools import make_tool_server
from tallymark.service.callers import Caller

BOB = Caller("default", "agent", "bob", agent="bob")


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (
            "list_challenge",
            {},
            "there is no tool 'list_challenge'; did you mean 'list_challenges'?",
        ),
        (
            "submit_answer",
            {"atempt": "x", "answer": 1},
            "submit_answer takes no argument 'atempt'; did you mean 'attempt'?",
        ),
        (
            "submit_answer",
            {"answer": 1},
            "submit_answer was called with wrong arguments: attempt: it is missing",
        ),
        (
            "list_my_attempts",
            {"limit": []},
            (
                "list_my_attempts was called with wrong arguments: limit: input should be a valid"
                " integer"
            ),
        ),
    ],
)
def test_a_wrong_call_gets_one_sentence(
    hall: Hall, tool: str, arguments: dict[str, Any], words: str
) -> None:
    assert hall.refuse("bob", tool, **arguments) == words


def test_a_mistake_of_ours_tells_nothing_of_the_inside(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("tallymark.service.challenges.view_challenges", fail)
    said = hall.refuse("bob", "list_challenges")
    assert said == "the server failed; the same call can be repeated"


@pytest.mark.parametrize(
    ("answer", "form", "read"),
    [
        ('{"a": 1}', "json", {"a": 1}),
        ('{"a": 1}', "text", '{"a": 1}'),
        ('{"a.py": "x"}', "files", {"a.py": "x"}),
        ("42", "json", "42"),
        ("Paris", "json", "Paris"),
        ("[" * 100_000, "json", "[" * 100_000),
        ({"a": 1}, "text", {"a": 1}),
    ],
)
def test_an_answer_is_read_as_the_challenge_wants_it(answer: Any, form: str, read: Any) -> None:
    assert read_answer(answer, form) == read


def test_an_agent_on_its_own_store_sees_what_its_key_would_show(hall: Hall) -> None:
    tools = make_tool_server(hall.server.service, BOB)

    async def work() -> Any:
        async with Client(tools) as client:
            found = await client.call_tool("list_my_attempts", {})
            refused = await client.call_tool("list_runs", {})
            return found, refused

    found, refused = anyio.run(work)
    assert found.structured_content["agent"] == "bob"
    assert refused.is_error
