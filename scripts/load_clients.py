"""Clients of every interface of a server, for load tests; they record acknowledged writes.

What cannot be had is asked for again as a person would, with the same key. What was acknowledged is
remembered, so that somebody can count in the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from scripts.faulty_proxy import FaultyProxy
from scripts.server_process import ADMIN_KEY, TALLY

from mcp import Client as McpClient
from mcp import MCPError
from tallymark.challenges.challenge_folder import pack
from tallymark.client import AsyncClient, Client
from tallymark.errors import TallymarkError
from tallymark.traces import Span

T = TypeVar("T")
TRIES = 30
_PAUSE_S = 0.5
"""Before somebody types a command again."""
CHALLENGE = """
name: sums
goal: What is six times seven?
time_limit: 1h
submission: {format: json, schema: {type: object, required: [sum]}}
evaluator:
  type: deterministic
  truth: truth.json
  fields: {sum: {primitive: exact_match, dimension: correctness}}
scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
"""
SUITE = """
metadata: {name: here, model: echo/me}
evals: [{name: a, prompt: Say hello, checks: [{match: "*hello*"}]}]
"""
AGENT = "def solve(goal):\n    return {'sum': 42}\n"


@dataclass
class Crowd:
    """What was to be done, what was done, and what was said on the way."""

    server: str
    proxy: FaultyProxy
    folder: Path
    agents: dict[str, str] = field(default_factory=dict)
    """Keys by handle."""
    doors: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    kept_runs: list[str] = field(default_factory=list)
    """Models of runs that `tally run` said were kept."""
    reports: int = 0
    spans: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, error: TallymarkError | str) -> None:
        """What somebody was told; more than one sentence is a mistake of ours."""
        said = str(error)
        if len(said.strip().splitlines()) != 1 or "Traceback" in said:
            self.wrong.append(f"not one sentence: {said[:300]}")
        if "mistake in Tallymark" in said:
            self.wrong.append(said[:600])
        self.refusals[said.partition(":")[0][:60]] += 1

    def insist(self, act: Callable[[], T]) -> T:
        """As often as it takes: who is told that it failed does the same again."""
        for _ in range(TRIES):
            try:
                return act()
            except TallymarkError as error:
                self.note(error)
        raise RuntimeError("it did not get through")

    async def ainsist(self, act: Callable[[], Awaitable[T]]) -> T:
        for _ in range(TRIES):
            try:
                return await act()
            except TallymarkError as error:
                self.note(error)
        raise RuntimeError("it did not get through")

    def add_agent(self, admin: Client, door: str) -> str:
        """A competitor of a door, and its key."""
        handle = f"{door}-{len(self.agents)}"
        made = admin.keys.add(handle, "agent", agent=handle, owner=handle)
        assert made.secret is not None
        self.agents[handle] = made.secret
        self.doors[door] += 1
        return handle


def compete_by_client(crowd: Crowd, handle: str) -> None:
    """Python, without an event loop."""
    with Client(crowd.proxy.url, crowd.agents[handle]) as client:
        entered = crowd.insist(lambda: client.attempts.enter("sums"))
        step = Span(span_id="1", name="look", span_type="tool", start_ms=time.time() * 1000)
        crowd.insist(lambda: client.send_spans(entered.token or "", [step]))
        attempt = entered.attempt.id
        crowd.insist(lambda: client.attempts.check(attempt, {"sum": 42}))
        crowd.insist(lambda: client.attempts.submit(attempt, {"sum": 42}))


def keep_and_report(crowd: Crowd, number: int) -> None:
    """Python, with one; a run and a report, each under a key of its own."""

    async def main() -> None:
        run = {"suite": "storm", "model": f"echo/{number}"}
        results = [{"case": "a", "status": "passed"}]
        metrics = {"succeeded": True, "rating": number}
        async with AsyncClient(crowd.proxy.url, ADMIN_KEY) as client:
            key = f"run-{number}"
            await crowd.ainsist(
                lambda: client.runs.create(run={**run, "results": results}, idempotency_key=key)
            )
            key = f"report-{number}"
            await crowd.ainsist(
                lambda: client.reports.send("speed", "ray", metrics, idempotency_key=key)
            )

    asyncio.run(main())
    crowd.runs += 1
    crowd.reports += 1


def compete_by_command(crowd: Crowd, handle: str) -> None:
    """`tally compete`, and what it says to do where it failed."""
    env = os.environ | {"TALLY_SERVER": crowd.proxy.url, "TALLY_KEY": crowd.agents[handle]}
    words, first = ["compete", "sums", "--function", "agent.py:solve", "--json"], ""
    for _ in range(TRIES):
        done = subprocess.run(
            [TALLY, *words], cwd=crowd.folder, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            if json.loads(done.stdout)["result"] != "win":
                crowd.wrong.append(f"{handle} did not win: {done.stdout[:300]}")
            return
        told = done.stderr.strip().splitlines()
        first = next((line for line in told if line.startswith("tally: ")), done.stderr)
        crowd.note(first)
        next_ = [line for line in told if "tally compete --attempt " in line]
        if next_:
            words = [*next_[-1].split()[1:], "--json"]
        elif "tally attempt show " in first:  # it is taken, and waits for its score
            attempt = first.rpartition(" ")[2]
            words = ["compete", "--attempt", attempt, "--function", "agent.py:solve", "--json"]
        elif any(line.startswith("Attempt ") for line in told):
            crowd.wrong.append(
                f"{handle} entered, and is not told how to go on:"
                f" {done.returncode} {done.stderr[-800:]} {done.stdout[-300:]}"
            )
        time.sleep(_PAUSE_S)
    crowd.wrong.append(f"{handle} did not get through by commands, at last: {first[:300]}")


def run_by_command(crowd: Crowd, number: int) -> None:
    """`tally run --server`: run here, kept there; who is told that it failed runs it again."""
    env = os.environ | {"TALLY_SERVER": crowd.proxy.url, "TALLY_KEY": ADMIN_KEY}
    words = [TALLY, "run", "suite.yaml", "-m", f"echo/{number}", "-q"]
    done = subprocess.run(
        words, cwd=crowd.folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        crowd.kept_runs.append(f"echo/{number}")
    else:
        crowd.note(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "nothing")


def compete_by_tools(crowd: Crowd, handle: str) -> None:
    """MCP over HTTP, as an agent does: called again with the same key."""
    headers = {"Authorization": f"Bearer {crowd.agents[handle]}"}

    async def call(tool: str, **arguments: Any) -> Any:
        for _ in range(TRIES):
            try:
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=60) as http,
                    McpClient(
                        streamable_http_client(f"{crowd.proxy.url}/mcp", http_client=http)
                    ) as client,
                ):
                    found = await client.call_tool(tool, arguments)
                    if not found.is_error:
                        return found.structured_content
                    crowd.note(str(getattr(found.content[0], "text", "")))
            except (ExceptionGroup, MCPError, httpx2.HTTPError):
                crowd.refusals["the SDK's client lost its connection"] += 1
        raise RuntimeError(f"{tool} did not get through")

    async def main() -> None:
        entered = await call("enter_challenge", challenge="sums", idempotency_key="e")
        sent = {"attempt": entered["attempt"], "answer": {"sum": 42}}
        await call("submit_answer", **sent, idempotency_key="s")

    anyio.run(main)


DOORS: dict[str, Callable[[Crowd, str], None]] = {
    "client": compete_by_client,
    "command": compete_by_command,
    "tools": compete_by_tools,
}


def write_files(folder: Path) -> None:
    """What commands and challenges need: an agent, a suite, a challenge."""
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    (folder / "sums").mkdir()
    (folder / "sums/challenge.yaml").write_text(CHALLENGE, encoding="utf-8")
    (folder / "sums/truth.json").write_text('{"sum": 42}', encoding="utf-8")


def publish(admin: Client, folder: Path) -> None:
    """The challenge whose answers are judged, and one that takes reports."""
    admin.challenges.publish(pack(folder / "sums"), force=True)
    admin.challenges.add("speed", scoring_formula="rating")
