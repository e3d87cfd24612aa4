"""SIGTERM under load: requests are answered, none with a 500; acknowledged writes exist."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from scripts.server_process import ADMIN_KEY, require_as_logged, set_up, start_server

from tallymark.service.app import App

END_S = 8.0
_GONE = (aiohttp.ClientError, ConnectionError, TimeoutError)
_HOME = "/api/v1/challenges/bench"
WAITING = {
    "challenge.yaml": """
name: waiting
title: Waiting
goal: Wait.
time_limit: 1h
evaluator: {type: script, script: evaluate.py, time: 60}
""",
    "evaluate.py": """
import time

def evaluate(submission, truth, data):
    time.sleep(submission["seconds"])
    return {"succeeded": True}
""",
}


@dataclass
class Answers:
    """What clients were answered, by what they asked."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    stored: list[str] = field(default_factory=list)
    """Attempts that a 2xx named."""
    submitted: dict[str, int] = field(default_factory=dict)
    """Attempts that a submission was sent for, and the status of its answer."""

    @property
    def total(self) -> int:
        return self.statuses.total()


class Clients:
    """Each sends its next request when it has an answer, until the server is gone."""

    def __init__(self, url: str, session: aiohttp.ClientSession, number: int) -> None:
        self._url, self._session, self._number = url, session, number
        self.answers = Answers()
        self._count = itertools.count()

    async def _ask(self, kind: str, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        async with self._session.request(method, self._url + path, **more) as answer:
            body = await answer.read()
        self.answers.statuses[kind, answer.status] += 1
        if answer.status == 503 and "Retry-After" not in answer.headers:
            self.answers.statuses[f"{kind}, no Retry-After", 599] += 1
        return answer.status, body

    def _report(self) -> dict[str, Any]:
        number = next(self._count)
        metrics = {"succeeded": True, "tokens_total": number % 1000, "elapsed_ms": number % 7000}
        return {"agent": f"agent-{number % 200}", "metrics": metrics}

    async def report(self) -> None:
        status, body = await self._ask("report", "POST", f"{_HOME}/reports", json=self._report())
        if status == 201:
            self.answers.stored.append(msgspec.json.decode(body)["attempt"]["id"])

    async def report_many(self) -> None:
        lines = b"\n".join(msgspec.json.encode(self._report()) for _ in range(50))
        kind = {"Content-Type": "application/x-ndjson"}
        _, body = await self._ask("bulk", "POST", f"{_HOME}/reports", data=lines, headers=kind)
        for told in msgspec.json.decode(body).get("items", ()):
            if told["status"] == 201:
                self.answers.stored.append(told["attempt"])

    async def read(self) -> None:
        for path in (f"{_HOME}/leaderboard", "/api/v1/ratings", "/"):
            await self._ask("read", "GET", path)

    async def export(self) -> None:
        await self._ask("export", "GET", "/api/v1/export/attempts?challenge=bench")

    async def listen(self) -> None:
        await self._ask("listen", "GET", f"{_HOME}/events")

    async def submit(self) -> None:
        """Wait for a score that takes long."""
        agent = {"agent": f"waiter-{self._number}-{next(self._count)}"}
        path = "/api/v1/challenges/waiting/attempts"
        status, body = await self._ask("enter", "POST", path, json=agent)
        if status != 201:
            return
        attempt = msgspec.json.decode(body)["attempt"]["id"]
        path = f"/api/v1/attempts/{attempt}/submission"
        sent = {"answer": {"seconds": 2.5}} | agent
        try:
            status, _ = await self._ask("submission", "POST", path, json=sent)
        except _GONE:
            self.answers.submitted[attempt] = 0
            raise
        self.answers.submitted[attempt] = status

    async def repeat(self, ask: Callable[[], Awaitable[None]]) -> None:
        try:
            while True:
                await ask()
        except _GONE:
            return


async def load_and_stop(url: str, stop: Callable[[], int], least: int, number: int) -> Answers:
    """Stop a server once so many requests were answered, and 8 submissions wait."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        headers=headers, connector=connector, timeout=timeout
    ) as session:
        clients = Clients(url, session, number)
        kinds = (
            *[clients.submit] * 8, *[clients.report] * 16, *[clients.report_many] * 3,
            *[clients.read] * 8, clients.export, *[clients.listen] * 5,
        )  # fmt: skip
        load = [asyncio.create_task(clients.repeat(each)) for each in kinds]
        answers = clients.answers
        while answers.total < least or answers.statuses["enter", 201] < 8:
            if any(each.done() for each in load):
                break
            await asyncio.sleep(0.05)
        code = await asyncio.to_thread(stop)
        if code:
            raise AssertionError(f"it ended with {code}")
        await asyncio.gather(*load)
    return answers


def prove_stopping(db: str, folder: Path, times: int, least: int) -> str:
    """Stop a server so often under load, on the same database; raise where a promise is broken."""
    folder.mkdir()
    for name, text in WAITING.items():
        (folder / name).write_text(text)
    with closing(App(db)) as app:
        app.store.prepare()
        set_up(app.store)
        games = app.competition()
        games.publish(folder)
        games.close()
    longest, all_answers = 0.0, Counter[tuple[str, int]]()
    for nth in range(times):
        server = start_server(db, workers=2)

        def stop() -> int:
            nonlocal longest
            began = time.monotonic()
            code = server.stop(60.0)  # noqa: B023 (called before the next one)
            longest = max(longest, time.monotonic() - began)
            return code

        try:
            answers = asyncio.run(load_and_stop(server.url, stop, least, nth))
        except AssertionError as error:
            raise AssertionError(f"{error}: {(server.last_words or '')[-2000:]}") from None
        finally:
            server.kill()
        all_answers += answers.statuses
        words = server.last_words or ""
        bad = {each for each in answers.statuses if each[1] >= 500 and each[1] != 503}
        _require(not bad, "answers that are no 503", bad, words[-2000:])
        _require("Traceback" not in words, "a traceback", words[-2000:])
        waited = Counter(answers.submitted.values())
        _require(waited[202] > 0, "nobody waited for a score", waited)
        _require(waited[0] == 0, "submissions without an answer", waited, words[-500:])
        _require_stored(db, answers)
    _require(longest <= END_S, "it took too long", longest)
    told = ", ".join(f"{count} x {kind} {status}" for (kind, status), count in all_answers.items())
    return f"ended {times} times, after {longest:.1f} s at most; {told}"


def _require_stored(db: str, answers: Answers) -> None:
    with closing(App(db)) as app:
        for each in answers.stored:
            attempt = app.store.attempts.get(each)
            _require(attempt.state == "scored", "a report is lost", each)
        for each, status in answers.submitted.items():
            attempt = app.store.attempts.get(each)
            if status in (200, 202):
                _require(attempt.state in ("submitted", "scored"), "lost", each, attempt.state)
            job = app.store.jobs.find("score", each)
            if attempt.state == "submitted":
                _require(job is not None and job.state == "queued", "no job scores it", each, job)
        require_as_logged(app.store, "scores", "attempts")


def _require(holds: bool, what: str, *facts: Any) -> None:
    if not holds:
        raise AssertionError(f"{what}: {facts}")
