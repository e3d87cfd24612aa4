"""`tally mcp` as a real process: on one's own store, and before a server elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from tests.http.conftest import listening
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
    assert found.structured_content["entered"]["attempt"]["agent"] == "dora"


def test_a_servers_tools_are_handed_on_with_its_key(hall: Hall) -> None:
    with listening(hall.server) as address:
        environment = {"TALLY_SERVER": address, "TALLY_KEY": hall.server.keys["bob"]}
        found = speak([], environment, "list_my_attempts")
    assert found.structured_content["agent"] == "bob"


def test_it_ends_when_nobody_writes_any_more(hall: Hall) -> None:
    with listening(hall.server) as address:
        environment = {"TALLY_SERVER": address, "TALLY_KEY": hall.server.keys["bob"]}
        ended = start([], environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


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
    said = serve(tmp_path, arguments, environment)
    assert words in said


def start(
    arguments: list[str], environment: dict[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The process that ended, whose standard input was closed from the start."""
    return subprocess.run(
        [TALLY, "mcp", *arguments],
        check=False,
        capture_output=True,
        cwd=folder,
        env=dict(os.environ) | environment,
        stdin=subprocess.DEVNULL,
        timeout=300,  # no verdict on its speed: one that never ends would keep all others waiting
    )


def serve(folder: Path, arguments: list[str], environment: dict[str, str]) -> str:
    """Return the line that explains why it does not serve."""
    ended = start(arguments, environment, folder)
    said: str = ended.stderr.decode()
    assert ended.returncode in (2, 3)
    assert len(said.strip().splitlines()) == 1
    return said


class Stranger(BaseHTTPRequestHandler):
    """A server of something else, that refuses in its own words."""

    def do_GET(self) -> None:
        self.send_response(400)
        self.end_headers()
        self.wfile.write(b'{"detail": "odd", "errors": "none"}')

    def log_message(self, *_: Any) -> None:
        """A server without output."""


def test_a_server_that_is_none_of_ours(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            said = serve(tmp_path, ["--server", url], {"TALLY_KEY": "tly_x"})
        finally:
            server.shutdown()
            thread.join()
    assert "answered 400, not in our language" in said
