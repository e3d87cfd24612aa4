"""Clients, commands and tools against a server in another process, over a network that fails.

Requests are lost, truncated, repeated or refused on the way: nothing is done twice, nothing is
lost, and a final failure is one sentence. `scripts/prove_network_faults.py` plays it at random.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from scripts.faulty_proxy import FAULTS, Fault, FaultyProxy, Request
from scripts.server_process import ADMIN_KEY, serve
from tests.cli.tally_process import Tally
from tests.http.route_table import PACKED_CHALLENGE

from mcp import Client as McpClient
from mcp import MCPError, StdioServerParameters
from tallymark.client import AsyncClient, Client
from tallymark.errors import TallymarkError, WorkFailed

LOSSES: tuple[Fault, ...] = ("drop before", "drop after", "repeat", "truncate", "busy", "gateway")
SENT: tuple[Fault, ...] = ("drop after", "truncate", "repeat")
GONE: tuple[Fault, ...] = ("busy",) * 9
"""More failures than any client retries; `busy` asks for an immediate retry."""
RUN = {"suite": "letters", "model": "echo/me", "results": [{"case": "a", "status": "passed"}]}


class Field:
    """A server, the proxy before it, and one who sees the truth past the proxy."""

    def __init__(self, server: str, proxy: FaultyProxy) -> None:
        self.server = server
        self.proxy = proxy
        self.admin = Client(server, ADMIN_KEY)
        self.admin.challenges.publish(PACKED_CHALLENGE)

    def make_agent(self, handle: str) -> str:
        """The key of a new agent."""
        made = self.admin.keys.add(handle, "agent", agent=handle, owner=handle)
        assert made.secret is not None
        return made.secret

    def list_attempts(self, agent: str) -> list[str]:
        """The states of an agent's attempts."""
        return [each.state for each in self.admin.attempts.list("sums", agent=agent)]

    def count_runs(self, suite: str) -> int:
        """Count the stored runs of a suite."""
        return len(list(self.admin.runs.list(suite=suite)))


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    db = str(tmp_path_factory.mktemp("faults") / "tally.db")
    with serve(db, workers=1) as server, FaultyProxy(server.url) as proxy:
        made = Field(server.url, proxy)
        yield made
        made.admin.close()


@pytest.fixture(autouse=True)
def _calm(field: Field, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    async def pause(_: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr("tallymark.client.connection.time.sleep", lambda _: None)
    monkeypatch.setattr("tallymark.client.connection.anyio.sleep", pause)
    yield
    field.proxy.calm()


@pytest.mark.parametrize("fault", LOSSES)
def test_an_attempt_is_entered_and_submitted_once(field: Field, fault: Fault) -> None:
    agent = f"sync-{fault.replace(' ', '-')}"
    with Client(field.proxy.url, field.make_agent(agent)) as client:
        field.proxy.plan(fault, None, fault, fault)
        with client.attempt("sums") as attempt:
            attempt.check({"sum": 42})
            done = attempt.submit({"sum": 42})
    assert done.result == "win"
    assert field.list_attempts(agent) == ["scored"]


@pytest.mark.parametrize("fault", SENT)
def test_the_key_of_an_invitation_is_not_lost_with_an_answer(field: Field, fault: Fault) -> None:
    invited = field.admin.invitations.add(uses=1)
    agent = f"invited-{fault.replace(' ', '-')}"
    with Client(field.proxy.url) as client:
        field.proxy.plan(fault, fault)
        made = client.invitations.accept(str(invited.code), owner=agent, agent=agent)
    with Client(field.server, made.secret) as client:
        assert client.accounts.me().agent == agent


@pytest.mark.parametrize("fault", LOSSES)
def test_reports_and_runs_are_kept_once(field: Field, fault: Fault) -> None:
    name = f"runs-{fault.replace(' ', '-')}"

    async def main() -> None:
        async with AsyncClient(field.proxy.url, ADMIN_KEY) as client:
            field.proxy.plan(fault, fault)
            await client.challenges.add(name, scoring_formula="rating")
            field.proxy.plan(fault, fault)
            await client.reports.send(name, "bob", {"succeeded": True, "rating": 5})
            field.proxy.plan(fault, fault)
            await client.runs.create(run={**RUN, "suite": name})

    asyncio.run(main())
    assert field.count_runs(name) == 1
    assert len(list(field.admin.attempts.list(name))) == 1


def test_what_cannot_be_had_is_one_sentence(field: Field) -> None:
    with Client(field.proxy.url, ADMIN_KEY) as client:
        for fault in FAULTS:
            if fault not in ("delay", "repeat"):
                field.proxy.plan(*[fault] * 9)
                with pytest.raises(WorkFailed) as caught:
                    client.runs.get("latest")
                assert len(str(caught.value).splitlines()) == 1


def test_a_list_that_breaks_off_goes_on_where_it_was(field: Field) -> None:
    for number in range(5):
        field.admin.runs.create(run={**RUN, "suite": "pages", "model": f"echo/{number}"})
    with Client(field.proxy.url, ADMIN_KEY) as client:
        field.proxy.plan("truncate", None, "drop after", "busy")
        found = [each.model for each in client.runs.list(suite="pages")]
    assert len(found) == len(set(found)) == 5


def play(field: Field, folder: Path, agent: str, *words: str) -> Any:
    """`tally` over the proxy, with an agent's key."""
    env = {"TALLY_SERVER": field.proxy.url, "TALLY_KEY": field.make_agent(agent)}
    return Tally(folder)(*words, env=env)


def test_compete_gets_through(field: Field, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("def solve(goal):\n    return {'sum': 42}\n")
    field.proxy.plan("drop after", None, "truncate", "repeat")
    command = ("compete", "sums", "--function", "agent.py:solve", "--json")
    done = play(field, tmp_path, "cli", *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "win"
    assert field.list_attempts("cli") == ["scored"]
    assert set(field.proxy.faults) >= {"drop after", "truncate", "repeat"}


def test_a_run_that_was_done_here_is_kept_there_once(field: Field, tmp_path: Path) -> None:
    suite = "metadata: {name: here, model: echo/me}\nevals: [{name: a, prompt: hi, checks: []}]\n"
    (tmp_path / "suite.yaml").write_text(suite)
    field.proxy.plan("drop after", "truncate", "repeat")
    env = {"TALLY_SERVER": field.proxy.url, "TALLY_KEY": ADMIN_KEY}
    done = Tally(tmp_path)("run", "suite.yaml", "-q", env=env)
    assert done.returncode == 0, done.stderr
    assert field.count_runs("here") == 1
    assert set(field.proxy.faults) >= set(SENT)


def test_a_submission_that_does_not_arrive_can_be_made_again(field: Field, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("print('{\"sum\": 42}')\n")

    def submits(request: Request) -> bool:
        return "/submission" in request.path

    field.proxy.plan(*GONE, only=submits)
    command = ("compete", "sums", "--program", f"{sys.executable} agent.py")
    done = play(field, tmp_path, "cli-lost", *command)
    assert done.returncode == 3
    first, *others = done.stderr.strip().splitlines()[-3:]
    assert first.startswith("tally: ")
    again = others[-1].split()[1:]
    assert again[:2] == ["compete", "--attempt"]
    field.proxy.calm()
    assert field.list_attempts("cli-lost") == ["entered"]
    done = play(field, tmp_path, "cli-lost", *again)
    assert done.returncode == 0, done.stderr
    assert field.list_attempts("cli-lost") == ["scored"]


def test_tools_on_stdio_send_again_by_themselves(field: Field) -> None:
    tally = str(Path(sys.executable).with_name("tally"))
    env = {"TALLY_SERVER": field.proxy.url, "TALLY_KEY": field.make_agent("mcp-stdio")}

    async def main() -> Any:
        async with McpClient(StdioServerParameters(command=tally, args=["mcp"], env=env)) as client:
            field.proxy.plan("truncate")
            entered = await client.call_tool("enter_challenge", {"challenge": "sums"})
            field.proxy.plan("drop after")
            sent = {
                "attempt": entered.structured_content["entered"]["attempt"]["id"],
                "answer": {"sum": 42},
            }
            done = await client.call_tool("submit_answer", sent)
            field.proxy.plan(*GONE)
            with pytest.raises(MCPError) as caught:
                await client.call_tool("list_my_attempts", {})
            return done, str(caught.value)

    done, said = anyio.run(main)
    assert done.structured_content["submitted"]["result"] == "win"
    assert field.list_attempts("mcp-stdio") == ["scored"]
    assert "answered 503" in said


def test_tools_over_http_do_once_what_is_called_again(field: Field) -> None:
    headers = {"Authorization": f"Bearer {field.make_agent('mcp-http')}"}

    async def call(tool: str, **arguments: Any) -> Any:
        """Repeat a broken call with the same key, as an agent does."""
        for _ in range(5):
            with suppress(ExceptionGroup, MCPError):
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=30) as http,
                    McpClient(
                        streamable_http_client(f"{field.proxy.url}/mcp", http_client=http)
                    ) as client,
                ):
                    found = await client.call_tool(tool, arguments)
                    assert not found.is_error, found.content
                    return found.structured_content
        raise AssertionError(f"{tool} did not get through")

    async def main() -> Any:
        field.proxy.plan(*SENT, only=_calls_a_tool)
        entered = await call("enter_challenge", challenge="sums", idempotency_key="e")
        field.proxy.plan(*SENT, only=_calls_a_tool)
        sent = {"attempt": entered["entered"]["attempt"]["id"], "answer": {"sum": 42}}
        return await call("submit_answer", **sent, idempotency_key="s")

    assert anyio.run(main)["submitted"]["result"] == "win"
    assert field.list_attempts("mcp-http") == ["scored"]


def _calls_a_tool(request: Request) -> bool:
    return b"tools/call" in request.raw


def test_a_short_storm_doubles_and_loses_nothing(field: Field) -> None:
    rng = random.Random(11)
    field.proxy.rage(rng, 0.4)
    with Client(field.proxy.url, ADMIN_KEY) as client:
        for number in range(8):
            run = {**RUN, "suite": "storm", "model": f"echo/{number}"}
            try:
                client.runs.create(run=run, idempotency_key=f"storm-{number}")
            except TallymarkError as error:
                assert len(str(error).splitlines()) == 1
                field.proxy.calm()
                client.runs.create(run=run, idempotency_key=f"storm-{number}")
                field.proxy.rage(rng, 0.4)
    assert field.count_runs("storm") == 8
