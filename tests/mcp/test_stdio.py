"""`tally mcp` as a real process: on one's own store, and before a server elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.api.conftest import listening
from tests.mcp.conftest import Hall

from mcp import Client, StdioServerParameters

TALLY = Path(sys.executable).parent / "tally"


def speak(arguments: list[str], environment: dict[str, str], tool: str, **asked: Any) -> Any:
    parameters = StdioServerParameters(
        command=str(TALLY), args=["mcp", *arguments], env={"PATH": os.environ["PATH"]} | environment
    )

    async def work() -> Any:
        async with Client(parameters) as client:
            return await client.call_tool(tool, asked)

    return anyio.run(work)


def test_an_agent_enters_in_its_own_store(hall: Hall) -> None:
    quiz = hall.add_quiz("stdio")
    db = hall.server.service.settings.db
    assert db is not None
    found = speak(["--db", db, "--agent", "dora"], {}, "enter_challenge", challenge=quiz)
    assert not found.is_error, found.content
    assert found.structured_content["agent"] == "dora"


def test_a_servers_tools_are_handed_on_with_its_key(hall: Hall) -> None:
    with listening(hall.server) as address:
        environment = {"TALLY_SERVER": address, "TALLY_KEY": hall.server.keys["bob"]}
        found = speak([], environment, "list_my_attempts")
    assert found.structured_content["agent"] == "bob"


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--server", "http://127.0.0.1:9"], {}, "there is no key for the server"),
        (["--server", "http://127.0.0.1:9"], {"TALLY_KEY": "tly_x"}, "cannot be reached"),
        (["--agent", "No Handle"], {}, "No Handle"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_sentence(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], words: str
) -> None:
    async def work() -> Any:
        return await anyio.run_process(
            [str(TALLY), "mcp", *arguments],
            check=False,
            cwd=tmp_path,
            env=dict(os.environ) | environment,
        )

    ended = anyio.run(work)
    said = ended.stderr.decode()
    assert words in said
    assert ended.returncode in (2, 3)
    assert len(said.strip().splitlines()) == 1
