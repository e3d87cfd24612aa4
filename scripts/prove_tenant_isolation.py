"""Tenants with hanging providers, receivers or judges do not delay other tenants."""

from __future__ import annotations

import asyncio
import itertools
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from scripts.prove_shutdown import WAITING
from scripts.server_process import ADMIN_KEY, require_as_logged, serve, set_up

from tallymark.service.accounts import AccountService
from tallymark.service.app import App
from tallymark.service.resources import Resources

MOST_SLOWER = 2.0
"""Times the unloaded time that a submission of another tenant may take."""
_OTHERS = {
    name: f"tly_{name}-0123456789-abcdefghijklmnopqrstuvwxyz" for name in ("slow", "hanging")
}
_SUITE = "evals: [{name: a, prompt: hi, checks: []}, {name: b, prompt: ho, checks: []}]"


@contextmanager
def hanging() -> Iterator[str]:
    """The address of something that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


class Tenant:
    """What somebody with a key does."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session, self._url = session, f"{url}/api/v1"
        self._headers = {"Authorization": f"Bearer {key}"}
        self._numbers = itertools.count()

    async def post(self, path: str, **body: Any) -> Any:
        sent = self._session.post(self._url + path, json=body, headers=self._headers)
        async with sent as answer:
            if answer.status >= 400:
                raise AssertionError(f"{path}: {answer.status}: {await answer.text()}")
            return answer.status, await answer.json()

    async def submit(self, seconds: float, **headers: str) -> tuple[int, float]:
        """The status of a submission, and how long it was waited for."""
        agent = f"agent-{next(self._numbers)}"
        _, entered = await self.post("/challenges/waiting/attempts", agent=agent)
        path = f"/attempts/{entered['attempt']['id']}/submission"
        began = time.monotonic()
        self._headers |= headers
        status, _ = await self.post(path, agent=agent, answer={"seconds": seconds})
        return status, time.monotonic() - began


async def _measure(tenant: Tenant, times: int) -> float:
    found = [await tenant.submit(0.2) for _ in range(times)]
    statuses = {status for status, _ in found}
    if statuses != {200}:
        raise AssertionError(f"submissions of the other tenant were not scored: {statuses}")
    return statistics.median(seconds for _, seconds in found)


async def _hang(tenant: Tenant, provider: str, receiver: str) -> None:
    for number in range(6):
        model = f"{provider}/v{number}"
        await tenant.post("/runs", suite=_SUITE, models=[model], name=f"hanging {number}")
    for number in range(3):
        _, made = await tenant.post(
            "/webhooks", url=f"{receiver}/{number}", events=["run.finished"]
        )
        for _ in range(15):
            await tenant.post(f"/webhooks/{made['webhook']['id']}/ping")


async def _play(url: str, times: int, provider: str, receiver: str) -> tuple[float, float]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        honest = Tenant(session, url, ADMIN_KEY)
        alone = await _measure(honest, times)
        others = {name: Tenant(session, url, key) for name, key in _OTHERS.items()}
        for each in others.values():
            await _hang(each, provider, receiver)
        for _ in range(6):
            await others["slow"].submit(50.0, Prefer="respond-async")
        return alone, await _measure(honest, times)


def prove_isolation(db: str, folder: Path, times: int) -> str:
    """Compare the time of submissions without and with a tenant of whom everything hangs."""
    folder.mkdir()
    for name, text in WAITING.items():
        (folder / name).write_text(text)
    with closing(App(db)) as app:
        app.store.prepare()
        set_up(app.store)
        others = [app.for_tenant(name) for name in _OTHERS]
        for each in others:
            Resources.over(app.store).tenants.add(each.tenant)
            AccountService(each.store).ensure_admin_key(_OTHERS[each.tenant])
        for each in (app, *others):
            games = each.competition()
            games.publish(folder)
            games.close()
    with (
        hanging() as provider,
        hanging() as receiver,
        serve(db, workers=2, TALLY_ALLOW="private-addresses") as server,
    ):
        alone, beside = asyncio.run(_play(server.url, times, provider, receiver))
        code = server.stop(60.0)
        if code or "Traceback" in (server.last_words or ""):
            raise AssertionError(f"it ended with {code}: {server.last_words}")
    with closing(App(db)) as app:
        require_as_logged(app.store, "attempts")
    told = f"{alone:.2f} s alone, {beside:.2f} s beside tenants of whom everything hangs"
    if beside > MOST_SLOWER * alone:
        raise AssertionError(f"a submission takes too long: {told}")
    return f"a submission took {told}"
