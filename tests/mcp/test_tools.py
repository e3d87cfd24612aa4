"""An agent of a public framework wins `log-detective` by what tools say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.http.conftest import Server, listening, run_server

from tallymark.challenges.challenge_folder import pack
from tallymark.service.resources import Resources

EXAMPLE = Path(__file__).parents[2] / "examples" / "challenges" / "log-detective"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with run_server(str(tmp_path / "tally.db"), workers=1) as running:
        Resources(running.service.tenant("default")).challenges.publish(pack(EXAMPLE), force=True)
        yield running


def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """An agent that knows no tool: it starts by a description and follows `next_step`."""
    tools = {each.name: each for each in info.function_tools}
    told: list[Any] = [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart) and isinstance(part.content, dict)
    ]
    known: dict[str, Any] = {}
    for each in told:
        known |= each | each.get("submitted", {})
        if each.get("challenges"):
            known["challenge"] = each["challenges"][0]["name"]
        if isinstance(each.get("challenge"), dict):
            known["challenge"] = each["challenge"]["name"]
        if "entered" in each:
            known["attempt"] = each["entered"]["attempt"]["id"]
            known["data"] = each["entered"]["data"]
    if "result" in known:
        return ModelResponse(parts=[TextPart(f"{known['result']} with {known['score']}")])
    if not told:
        name = next(
            each.name for each in tools.values() if "Start here" in (each.description or "")
        )
    else:
        name = next(word for word in re.findall(r"\w+", told[-1]["next_step"]) if word in tools)
    if "data" in known:
        known["answer"] = find_attacker(known["data"]["access.log"])
    wanted = tools[name].parameters_json_schema.get("required", ())
    return ModelResponse(parts=[ToolCallPart(name, {each: known[each] for each in wanted})])


def find_attacker(log: str) -> dict[str, Any]:
    """Answer the goal."""
    lines: list[Any] = [(number, *line.split()) for number, line in enumerate(log.splitlines(), 1)]
    failed: dict[str, set[str]] = {}
    for _, _, address, *did in lines:
        if did[0] == "login" and did[-1] == "failed":
            failed.setdefault(address, set()).add(did[1])
    own: list[Any] = []
    for address in (each for each, names in failed.items() if len(names) >= 5):
        own = [each for each in lines if each[2] == address]
        if any(each[-1] == "ok" for each in own):
            break
    return {
        "attacker": own[0][2],
        "first_seen": own[0][1],
        "accounts": [each[4] for each in own if each[-1] == "ok"],
        "files": [each[4] for each in own if each[3] == "download"],
        "evidence": [each[0] for each in own],
    }


def test_an_agent_plays_from_the_list_to_a_win(server: Server) -> None:
    async def play(address: str) -> str:
        headers = {"Authorization": f"Bearer {server.keys['bob']}"}
        toolset: MCPToolset[None] = MCPToolset(f"{address}/mcp", headers=headers)
        agent = Agent(FunctionModel(decide), toolsets=[toolset])
        return str((await agent.run("Win a challenge.")).output)

    with listening(server) as address:
        said = anyio.run(play, address)
    assert said.startswith("win with ")
