"""Clients, commands and tools over a network that fails at random: nothing doubled, nothing lost.

    python -m scripts.prove_faults [--seconds 60] [--seed 1] [--share 0.3]

A server runs in a process of its own; between it and those who ask is `faulty_proxy.py`. Each of
many agents competes, keeps runs, reports and shows spans, by one door after the other; what cannot
be had is asked for again as a person would, with the same key. In the end one who sees past the
proxy counts, and the database is checked as `tally admin check` does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
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
from scripts.server_process import ADMIN_KEY, require_as_logged, serve

from mcp import Client as McpClient
from mcp import MCPError
from tallymark.client import AsyncClient, Client
from tallymark.errors import TallymarkError
from tallymark.store import open_store
from tallymark.traces import Span

T = TypeVar("T")
TRIES = 30
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
_TALLY = str(Path(sys.executable).with_name("tally"))


@dataclass
class Storm:
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
        made = admin.accounts.create_key(handle, role="agent", agent=handle, owner=handle)
        assert made.secret is not None
        self.agents[handle] = made.secret
        self.doors[door] += 1
        return handle


def compete_by_client(storm: Storm, handle: str) -> None:
    """Python, without an event loop."""
    with Client(storm.proxy.url, storm.agents[handle]) as client:
        entered = storm.insist(lambda: client.challenges.enter("sums"))
        step = Span(span_id="1", name="look", span_type="tool", start_ms=time.time() * 1000)
        storm.insist(lambda: client.attempts.send_spans(entered.token, [step]))
        attempt = entered.attempt.id
        storm.insist(lambda: client.attempts.validate(attempt, {"sum": 42}))
        storm.insist(lambda: client.attempts.submit(attempt, {"sum": 42}))


def keep_and_report(storm: Storm, number: int) -> None:
    """Python, with one; a run and a report, each under a key of its own."""

    async def main() -> None:
        run = {"suite": "storm", "model": f"echo/{number}"}
        results = [{"case": "a", "status": "passed"}]
        metrics = {"succeeded": True, "rating": number}
        async with AsyncClient(storm.proxy.url, ADMIN_KEY) as client:
            key = f"run-{number}"
            await storm.ainsist(
                lambda: client.runs.keep({**run, "results": results}, idempotency_key=key)
            )
            key = f"report-{number}"
            await storm.ainsist(
                lambda: client.challenges.report("speed", "ray", metrics, idempotency_key=key)
            )

    asyncio.run(main())
    storm.runs += 1
    storm.reports += 1


def compete_by_command(storm: Storm, handle: str) -> None:
    """`tally compete`, and what it says to do where it failed."""
    env = os.environ | {"TALLY_SERVER": storm.proxy.url, "TALLY_KEY": storm.agents[handle]}
    words = ["compete", "sums", "--agent", "agent.py:solve", "--json"]
    for _ in range(TRIES):
        done = subprocess.run(
            [_TALLY, *words], cwd=storm.folder, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            if json.loads(done.stdout)["result"] != "win":
                storm.wrong.append(f"{handle} did not win: {done.stdout[:300]}")
            return
        told = done.stderr.strip().splitlines()
        first = next((line for line in told if line.startswith("tally: ")), done.stderr)
        storm.note(first)
        if "Go on with" in done.stderr:
            words = [*told[-1].split()[1:], "--json"]
    storm.wrong.append(f"{handle} did not get through by commands")


def run_by_command(storm: Storm, number: int) -> None:
    """`tally run --server`: run here, kept there; who is told that it failed runs it again."""
    env = os.environ | {"TALLY_SERVER": storm.proxy.url, "TALLY_KEY": ADMIN_KEY}
    words = [_TALLY, "run", "suite.yaml", "-m", f"echo/{number}", "-q"]
    done = subprocess.run(
        words, cwd=storm.folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        storm.kept_runs.append(f"echo/{number}")
    else:
        storm.note(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "nothing")


def compete_by_tools(storm: Storm, handle: str) -> None:
    """MCP over HTTP, as an agent does: called again with the same key."""
    headers = {"Authorization": f"Bearer {storm.agents[handle]}"}

    async def call(tool: str, **arguments: Any) -> Any:
        for _ in range(TRIES):
            try:
                async with (
                    httpx2.AsyncClient(headers=headers, timeout=60) as http,
                    McpClient(
                        streamable_http_client(f"{storm.proxy.url}/mcp", http_client=http)
                    ) as client,
                ):
                    found = await client.call_tool(tool, arguments)
                    if not found.is_error:
                        return found.structured_content
                    storm.note(str(getattr(found.content[0], "text", "")))
            except (ExceptionGroup, MCPError, httpx2.HTTPError):
                storm.refusals["the SDK's client lost its connection"] += 1
        raise RuntimeError(f"{tool} did not get through")

    async def main() -> None:
        entered = await call("enter_challenge", challenge="sums", idempotency_key="e")
        sent = {"attempt": entered["attempt"], "answer": {"sum": 42}}
        await call("submit_answer", **sent, idempotency_key="s")

    anyio.run(main)


DOORS: dict[str, Callable[[Storm, str], None]] = {
    "client": compete_by_client,
    "command": compete_by_command,
    "tools": compete_by_tools,
}


def count(storm: Storm, admin: Client) -> list[str]:
    """What is there, by one who sees past the proxy; what should not be so."""
    wrong = list(storm.wrong)
    for handle in storm.agents:
        states = [each.state for each in admin.challenges.list_attempts("sums", agent=handle)]
        if states != ["scored"]:
            wrong.append(f"{handle} has attempts {states}")
    runs = [each.model for each in admin.runs.list(suite="storm")]
    if len(runs) != storm.runs or len(set(runs)) != storm.runs:
        wrong.append(f"{storm.runs} runs were kept, and there are {len(runs)}")
    by_command = Counter(each.model for each in admin.runs.list(suite="here"))
    if lost := [model for model in storm.kept_runs if by_command[model] != 1]:
        wrong.append(f"runs that were kept are not there once: {lost}")
    if twice := [model for model, times in by_command.items() if times > 1]:
        wrong.append(f"runs are there twice: {twice}")
    reports = len(list(admin.challenges.list_attempts("speed", agent="ray")))
    if reports != storm.reports:
        wrong.append(f"{storm.reports} were reported, and there are {reports}")
    return wrong


def rage(seconds: float, seed: int, share: float) -> tuple[list[str], Storm]:
    """A storm of so many seconds, and what was wrong after it."""
    rng = random.Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="tally-storm-") as made,
        serve(f"{made}/tally.db", workers=1) as server,
        FaultyProxy(server.url) as proxy,
        Client(server.url, ADMIN_KEY) as admin,
    ):
        folder = Path(made)
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
        (folder / "sums").mkdir()
        (folder / "sums/challenge.yaml").write_text(CHALLENGE, encoding="utf-8")
        (folder / "sums/truth.json").write_text('{"sum": 42}', encoding="utf-8")
        admin.challenges.publish(folder / "sums", force=True)
        admin.challenges.publish({"name": "speed", "scoring_formula": "rating"})
        storm = Storm(server.url, proxy, folder)
        ends = time.monotonic() + seconds
        proxy.rage(rng, share)
        while time.monotonic() < ends:
            run_by_command(storm, storm.runs)
            keep_and_report(storm, storm.runs)
            for door, compete in DOORS.items():
                compete(storm, storm.add_agent(admin, door))
        proxy.calm()
        wrong = count(storm, admin)
        try:
            with open_store(f"{made}/tally.db") as store:
                require_as_logged(store, "scores", "boards", "runs")
        except AssertionError as error:
            wrong.append(str(error))
        return wrong, storm


def judge_faults(seconds: float = 120.0, seed: int = 1, share: float = 0.3) -> tuple[bool, str]:
    """Whether it holds, and what happened."""
    wrong, storm = rage(seconds, seed, share)
    faults = storm.proxy.faults
    told = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
    doors = ", ".join(f"{count} by {door}" for door, count in sorted(storm.doors.items()))
    runs = storm.runs + len(storm.kept_runs)
    body = (
        f"{len(storm.proxy.asked):,} requests through a network that fails {share:.0%} of them "
        f"(seed {seed}; {told}): {len(storm.agents)} attempts ({doors}), "
        f"{runs} runs and {storm.reports} reports, each there once, and the check finds nothing. "
        f"{sum(storm.refusals.values())} times somebody "
        "was told that it failed, in one sentence, and did the same again.\n"
    )
    body += "".join(f"\n- {each}" for each in wrong) + ("\n" if wrong else "")
    return not wrong, body


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.3)
    given = parser.parse_args()
    holds, body = judge_faults(given.seconds, given.seed, given.share)
    sys.stdout.write(body)
    sys.exit(not holds)


if __name__ == "__main__":
    main()
