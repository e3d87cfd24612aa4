"""What people wait for at a server: pages over large stores, and an answer to a submission.

CPU of the server's process, as on a core on which `python -c pass` takes 11 ms. A page is asked for
by somebody who is signed in, again and again: what the server caches is cached.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import aiohttp
import msgspec
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides, find_scale
from scripts.large_store import (
    load_attempts,
    load_long_trace,
    load_traces,
    name_agent,
    name_challenge,
)
from scripts.server_process import ADMIN_KEY, ServerProcess, serve, set_up

from tallymark.challenges.challenge_folder import pack
from tallymark.service.resources import Resources
from tallymark.store import Store, open_store

TIMES = 20
_folder = tempfile.TemporaryDirectory(prefix="tally-bench-")
ADDED = {
    "challenge.yaml": b"""
name: sums
goal: Add up.
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}
attempts: 1000000
""",
    "truth.json": b'{"sum": 42}',
}


def fill_agents(store: Store, size: int) -> None:
    """Ten attempts of each agent at twenty challenges."""
    load_attempts(store, 10 * size, size, 20)


def fill_challenges(store: Store, size: int) -> None:
    load_attempts(store, 5 * size, 100, size)


def fill_submissions(store: Store, size: int) -> None:
    """Attempts of others, and a challenge that compares answers with a truth."""
    load_attempts(store, size, max(10, size // 10), 10)
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        for name, content in ADDED.items():
            Path(folder, name).write_bytes(content)
        Resources.over(store).challenges.publish(pack(Path(folder)), force=True)


def fill_nothing(_store: Store, _size: int) -> None: ...


@cache
def load_once(fill: Callable[[Store, int], None], size: int) -> str:
    db = str(Path(_folder.name, f"{fill.__name__}-{size}.db"))
    with open_store(db) as store:
        set_up(store)
        fill(store, size)
    return db


@contextmanager
def open_site(server: ServerProcess) -> Iterator[Callable[..., bytes]]:
    """Asks for pages as somebody who has signed in; the API is asked by the same key."""
    with asyncio.Runner() as runner:
        session = runner.run(_sign_in(server.url))

        async def ask(method: str, path: str, body: object = None) -> bytes:
            async with session.request(method, server.url + path, json=body) as answer:
                content = await answer.read()
                assert answer.status in (200, 201), content
                return content

        yield lambda *given: runner.run(ask(*given))
        runner.run(session.close())


async def _sign_in(url: str) -> aiohttp.ClientSession:
    jar = aiohttp.CookieJar(unsafe=True)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    session = aiohttp.ClientSession(cookie_jar=jar, headers=headers)
    async with session.get(f"{url}/sign-in") as answer:
        found = re.search(r'name="csrf" value="([^"]+)"', await answer.text())
    form = {"do": "sign-in", "key": ADMIN_KEY, "csrf": found[1] if found else ""}
    async with session.post(f"{url}/sign-in", data=form, headers={"Origin": url}) as answer:
        assert answer.status == 200, await answer.text()
    return session


def page(path: str, fill: Callable[[Store, int], None]) -> MakeSides:
    """A page of a server over a store of some size."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with serve(load_once(fill, size)) as server, open_site(server) as ask:

            def spend() -> float:
                before = server.cpu
                for _ in range(TIMES):
                    ask("GET", path)
                return (server.cpu - before) * find_scale()

            ask("GET", path)
            yield {OURS: Side(spend, TIMES, told=True)}

    return make


@contextmanager
def submissions(size: int) -> Iterator[Sides]:
    """Entered and submitted, one after another."""
    with serve(load_once(fill_submissions, size)) as server, open_site(server) as ask:

        def submit(number: int) -> None:
            entry = {"agent": f"bench-{number % 7}"}
            entered = msgspec.json.decode(ask("POST", "/api/v1/challenges/sums/attempts", entry))
            path = f"/api/v1/attempts/{entered['attempt']['id']}/submission"
            ask("POST", path, {"answer": {"sum": 42}})

        def spend() -> float:
            before = server.cpu
            for number in range(TIMES):
                submit(number)
            return (server.cpu - before) * find_scale()

        spend()
        yield {OURS: Side(spend, TIMES, told=True)}


@contextmanager
def comparisons(size: int) -> Iterator[Sides]:
    """The page that compares two finished runs of so many cases."""
    with serve(load_once(fill_nothing, 0)) as server, open_site(server) as ask:
        runs = []
        for number in range(2):
            results = [
                {"case": f"case {nth}", "status": "passed" if (nth + number) % 7 else "failed"}
                for nth in range(size)
            ]
            run = {"suite": "bench", "model": "echo/me", "results": results}
            made = msgspec.json.decode(ask("POST", "/api/v1/runs", {"run": run}))
            runs.append(made["run"]["id"])
        path = f"/compare?run={runs[0]}&run={runs[1]}"

        def spend() -> float:
            before = server.cpu
            for _ in range(TIMES):
                ask("GET", path)
            return (server.cpu - before) * find_scale()

        ask("GET", path)
        yield {OURS: Side(spend, TIMES, told=True)}


PAGES = (
    ("an agent", f"/agents/{name_agent(7)}", fill_agents, (100, 1_000, 10_000), "agents", 20e-3),
    ("ratings", "/ratings", fill_agents, (100, 1_000, 10_000), "agents", 20e-3),
    ("challenges", "/challenges", fill_challenges, (20, 200, 2_000), "challenges", 50e-3),
    ("traces", "/traces", load_traces, (2_000, 20_000, 200_000), "traces", 30e-3),
    ("a trace", f"/traces/{1:032x}", load_long_trace, (200, 2_000, 20_000), "spans", 50e-3),
    (
        *("a board", f"/challenges/{name_challenge(1)}", fill_agents),
        *((100, 1_000, 10_000), "agents", 10e-3),
    ),
)
BENCHES = (
    *(
        Bench(
            name,
            f"The page, again and again: {limit * 1000:.0f} ms of the server's CPU.",
            page(path, fill),
            sizes,
            of,
            (Promise(limit),),
            each="page",
            rounds=3,
        )
        for name, path, fill, sizes, of, limit in PAGES
    ),
    Bench(
        "a comparison",
        "The page of two finished runs, again and again: 30 ms of the server's CPU.",
        comparisons,
        (100, 1_000, 10_000),
        "cases",
        (Promise(30e-3),),
        each="page",
        rounds=3,
    ),
    Bench(
        "enter and submit",
        "Two requests, the answer compared with a truth and scored: 5 ms of the server's CPU.",
        submissions,
        (10_000, 100_000, 1_000_000),
        "attempts",
        (Promise(5e-3),),
        each="submission",
        rounds=3,
    ),
)
