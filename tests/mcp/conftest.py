"""The server and people of `tests/http`, asked by the SDK's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp
from tests.http.conftest import Server, publish, run_server

from mcp import Client
from tallymark.challenges.challenge_folder import pack
from tallymark.server import make_server
from tallymark.service.resources import Resources

ADDRESS = "http://tally.test/mcp"
QUIZ = """
name: {name}
title: A quiz
goal: What is six times seven?
submission: {{format: json, schema: {{type: object, required: [number]}}}}
evaluator:
  type: deterministic
  truth: truth.json
  fields: {{number: {{primitive: exact_match, dimension: correctness}}}}
scoring:
  dimensions: {{correctness: 0.9, speed: 0.1}}
"""


@dataclass(frozen=True)
class Hall:
    """A server whose tools people call."""

    server: Server
    app: ASGIApp
    folder: Path

    def add_quiz(self, name: str) -> str:
        """A challenge for one test alone."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "challenge.yaml").write_text(QUIZ.format(name=name), encoding="utf-8")
        (folder / "truth.json").write_text('{"number": 42}', encoding="utf-8")
        Resources(self.server.service.tenant("default")).challenges.publish(
            pack(folder), force=True
        )
        return name

    def enter(self, who: str, quiz: str) -> str:
        """The id of an attempt."""
        return str(self.ask(who, "enter_challenge", challenge=quiz)["entered"]["attempt"]["id"])

    def ask(self, who: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; a refusal fails the test."""
        found = self._call(who, tool, arguments)
        assert not found.is_error, found.content
        told: dict[str, Any] = found.structured_content
        return told

    def refuse(self, who: str, tool: str, **arguments: Any) -> str:
        """The words of a refusal."""
        found = self._call(who, tool, arguments)
        assert found.is_error, found.structured_content
        return str(found.content[0].text)

    def _call(self, who: str, tool: str, arguments: dict[str, Any]) -> Any:
        async def work() -> Any:
            async with self.connect(who) as client:
                return await client.call_tool(tool, arguments)

        return anyio.run(work)

    @asynccontextmanager
    async def connect(self, who: str, mode: str = "auto") -> AsyncIterator[Client]:
        """Open the SDK's client with a person's key, or without one."""
        key = self.server.keys.get(who)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx2.ASGITransport(app=self.app)
        async with (
            httpx2.AsyncClient(transport=transport, headers=headers, timeout=60) as http,
            Client(
                streamable_http_client("http://tally.test/mcp", http_client=http), mode=mode
            ) as c,
        ):
            yield c


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    """A server with a quiz without entries, and a public board of reported attempts."""
    folder = tmp_path_factory.mktemp("mcp")
    with run_server(str(folder / "tally.db"), workers=1) as server:
        made = Hall(server, make_server(server.service), folder)
        made.add_quiz("quiz")
        publish(server, name="speed", scoring_formula="rating * 10", visibility="public")
        yield made
