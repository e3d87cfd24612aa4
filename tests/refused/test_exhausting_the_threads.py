"""One client, however many requests it sends, keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import to_thread
from tests.http.conftest import Unlimited, _make_keys

from tallymark.challenges import challenge_data
from tallymark.challenges.challenge_folder import pack
from tallymark.ratings import fit
from tallymark.server import make_server
from tallymark.service.callers import Caller
from tallymark.service.competition import Competition
from tallymark.service.fair_threads import EACH, MOST_WAITING, FairThreads, FairTurns
from tallymark.service.limits import TABLE_COST, RateLimits
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store.contests.attempts import Attempts
from tallymark.store.database import Database

EXAMPLES = Path(__file__).parents[2] / "examples" / "challenges"
PACKED = {"Content-Type": "application/vnd.tallymark.challenge"}
NDJSON = {"Content-Type": "application/x-ndjson"}
LONG = 60.0
"""Only what would otherwise never end takes so long."""


@dataclass(frozen=True)
class Site:
    """A server in the event loop of the test."""

    app: Any
    service: Service
    keys: dict[str, str]

    async def ask(
        self, who: str, method: str, path: str, *, address: str = "192.0.2.1", **more: Any
    ) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if who in self.keys:
            headers["Authorization"] = f"Bearer {self.keys[who]}"
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://tally.test") as client:
            return await client.request(method, path, headers=headers, **more)

    async def v1(self, who: str, method: str, path: str, **more: Any) -> httpx.Response:
        return await asyncio.wait_for(self.ask(who, method, f"/api/v1{path}", **more), LONG)


@asynccontextmanager
async def serve(url: str, **settings: Any) -> AsyncIterator[Site]:
    service = Service(ServiceSettings(db=url, **{"workers": 0, **settings}))
    service.limits = Unlimited()
    app = make_server(service)
    await asyncio.to_thread(service.open)
    try:
        yield Site(app, service, await asyncio.to_thread(_make_keys, service))
    finally:
        await asyncio.to_thread(service.close)


@dataclass(frozen=True)
class Held:
    """Reads of the attempt `a-held` that do not end before they are let go."""

    running: list[str]
    let_go: threading.Event

    async def wait_for(self, count: int) -> None:
        await until(lambda: len(self.running) >= count)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made, get = Held([], threading.Event()), Attempts.get

    def wait(self: Attempts, identifier: str, **more: Any) -> Any:
        if identifier == "a-held":
            made.running.append(identifier)
            made.let_go.wait(LONG)
        return get(self, identifier, **more)

    monkeypatch.setattr(Attempts, "get", wait)
    yield made
    made.let_go.set()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (threads of the server make it so)
        await asyncio.sleep(0)


def spawn(count: int, ask: Callable[[], Coroutine[Any, Any, Any]]) -> list[asyncio.Task[Any]]:
    return [asyncio.create_task(ask()) for _ in range(count)]


def test_others_are_answered_while_one_owner_holds_its_threads(empty_url: str, held: Held) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            waiting = spawn(60, lambda: site.ask("bob", "GET", "/api/v1/attempts/a-held"))
            await held.wait_for(EACH)
            for path in ("/api/v1/challenges", "/readyz", "/challenges"):
                answered = await asyncio.wait_for(site.ask("charlie", "GET", path), LONG)
                assert answered.status_code == 200, path
            tool = {"name": "list_challenges", "arguments": {}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
            accept = {"Accept": "application/json"}
            told = await asyncio.wait_for(
                site.ask("charlie", "POST", "/mcp", json=call, headers=accept), LONG
            )
            assert "result" in told.json(), told.text
            assert len(held.running) == EACH
            assert not any(each.done() for each in waiting)
            held.let_go.set()
            assert {(await each).status_code for each in waiting} == {404}

    asyncio.run(play())


def test_an_owner_whose_queue_is_full_is_told_when_to_come_back(empty_url: str, held: Held) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            room = EACH + MOST_WAITING
            asked = spawn(room + 5, lambda: site.ask("bob", "GET", "/api/v1/attempts/a-held"))
            first, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert {each.result().status_code for each in first} == {503}
            held.let_go.set()
            answers = [await each for each in asked]
            refused = [each for each in answers if each.status_code == 503]
            assert len(refused) == 5
            assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
            assert all(each.json()["code"] == "busy" for each in refused)

    asyncio.run(play())


def test_strangers_share_threads_by_their_address(empty_url: str, held: Held) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            waiting = spawn(60, lambda: site.ask("", "GET", "/attempts/a-held"))
            await held.wait_for(EACH)
            shown = site.ask("", "GET", "/challenges", address="192.0.2.2")
            assert (await asyncio.wait_for(shown, LONG)).status_code == 200
            assert len(held.running) == EACH
            held.let_go.set()
            assert {(await each).status_code for each in waiting} == {404}

    asyncio.run(play())


def test_who_waits_too_long_is_told_when_to_come_back(empty_url: str, held: Held) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            site.service.threads = FairThreads(turns=FairTurns(longest_wait_s=0.01))
            waiting = spawn(EACH, lambda: site.ask("", "GET", "/attempts/a-held"))
            await held.wait_for(EACH)
            page = await asyncio.wait_for(site.ask("", "GET", "/challenges"), LONG)
            assert page.status_code == 503
            assert int(page.headers["retry-after"]) >= 1
            assert "busy with your other requests" in page.text
            held.let_go.set()
            await asyncio.gather(*waiting)

    asyncio.run(play())


def test_owners_take_turns() -> None:
    async def play() -> list[str]:
        turns, order = FairTurns(1, 1), []

        async def work(owner: str) -> None:
            async with turns.take(owner):
                order.append(owner)
                await asyncio.sleep(0)

        await asyncio.gather(*map(work, ("alice", "alice", "alice", "bob", "carol", "bob")))
        assert not turns._shares
        return order

    assert asyncio.run(play()) == ["alice", "bob", "carol", "alice", "bob", "alice"]


def test_an_owner_has_fewer_turns_while_others_have_some() -> None:
    async def play() -> None:
        turns, running, go = FairTurns(40, 4), Counter[str](), asyncio.Semaphore(0)

        async def work(owner: str) -> None:
            async with turns.take(owner):
                running[owner] += 1
                await go.acquire()
                running[owner] -= 1

        asked = spawn(8, lambda: work("alice"))
        await asyncio.sleep(0)
        assert running["alice"] == 4
        asked += spawn(8, lambda: work("bob"))
        await asyncio.sleep(0)
        assert running["bob"] == 2
        for _ in range(4):  # those of alice began first, so they end first
            go.release()
        await until(lambda: running["alice"] == 2)
        assert running["bob"] == 2
        for _ in range(12):
            go.release()
        await asyncio.gather(*asked)
        assert not turns._shares

    asyncio.run(play())


def test_who_is_alone_again_has_all_turns() -> None:
    async def play() -> None:
        turns, go, done = FairTurns(40, 4), asyncio.Event(), asyncio.Event()

        async def work(owner: str, until: asyncio.Event) -> None:
            async with turns.take(owner):
                await until.wait()

        bob = spawn(1, lambda: work("bob", done))
        await asyncio.sleep(0)
        asked = spawn(6, lambda: work("alice", go))
        await asyncio.sleep(0)
        assert turns.count() == {"running": 3, "waiting": 4}
        done.set()
        await asyncio.gather(*bob)
        assert turns.count() == {"running": 4, "waiting": 2}
        go.set()
        await asyncio.gather(*asked)

    asyncio.run(play())


def test_who_goes_away_leaves_no_turn_behind() -> None:
    async def play() -> None:
        turns, go = FairTurns(1, 1), asyncio.Event()

        async def work() -> None:
            async with turns.take("alice"):
                await go.wait()

        first, second = spawn(2, work)
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        go.set()
        await first
        async with turns.take("bob"):
            assert list(turns._shares) == ["bob"]
        assert not turns._shares

    asyncio.run(play())


def test_waiting_for_a_score_holds_no_thread(empty_url: str) -> None:
    """Nobody scores here, and the server has one thread in all."""

    async def play() -> None:
        async with serve(empty_url) as site:
            site.service.threads = FairThreads(1)
            packed = pack(EXAMPLES / "fix-the-parser")
            path = "/challenges?force=true"
            made = await site.v1("alice", "POST", path, content=packed, headers=PACKED)
            assert made.status_code == 201, made.text
            entered = await site.v1("bob", "POST", "/challenges/fix-the-parser/attempts", json={})
            path = f"/attempts/{entered.json()['attempt']['id']}/submission"
            answer = {"answer": {"durations.py": "x = 1"}}
            waiting = asyncio.create_task(site.v1("bob", "POST", path, json=answer))
            bell = site.service.app.store.jobs.wakeups
            await until(lambda: bool(bell._waiting))
            again = await site.v1("bob", "POST", path, json=answer)
            assert (again.status_code, again.json()["attempt"]["state"]) == (202, "submitted")
            assert (await site.v1("charlie", "GET", "/challenges")).status_code == 200
            assert not waiting.done()
            bell.stop()  # as at SIGTERM
            told = await waiting
            assert (told.status_code, told.json()["job"]) == (202, again.json()["job"])
            assert told.headers["location"].endswith(told.json()["job"])

    asyncio.run(play())


@contextmanager
def held_commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The disk of the one who writes for all stands still until the event is set."""
    let_go, apply = threading.Event(), Database._apply

    def wait(self: Database, items: Any, **more: Any) -> Any:
        if threading.current_thread().name == "tally-writer":
            let_go.wait(LONG)
        return apply(self, items, **more)

    monkeypatch.setattr(Database, "_apply", wait)
    yield let_go
    let_go.set()


def test_reports_wait_for_the_disk_without_a_thread(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread in all; one reporter's bulks fill no more of the writer's queue than its turns."""

    async def play(let_go: threading.Event) -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            assert (await site.v1("alice", "POST", "/challenges", json=new)).status_code == 201
            site.service.threads = FairThreads(1)
            lines = [json.dumps({"agent": "bob", "metrics": {"rating": n}}) for n in range(10)]
            path, body = "/challenges/speed/reports", "\n".join(lines)
            bulks = spawn(20, lambda: site.v1("rita", "POST", path, content=body, headers=NDJSON))
            alone = asyncio.create_task(site.v1("alice", "POST", path, json=json.loads(lines[0])))
            writer = site.service.app.store._database.start_writer()
            turns = site.service.bulk_turns
            await until(lambda: turns._running == EACH and len(writer) > 0)
            assert (await site.v1("charlie", "GET", "/challenges/speed")).status_code == 200
            assert len(writer) <= EACH * len(lines) + 1
            assert not any(each.done() for each in (*bulks, alone))
            let_go.set()
            assert (await alone).status_code == 201
            answers = [await each for each in bulks]
            assert {each.status_code for each in answers} == {200}
            assert all(each.text.count('"status":201') == len(lines) for each in answers)

    with held_commits(monkeypatch) as let_go:
        asyncio.run(play(let_go))


def test_bulks_of_all_or_none_leave_threads_to_others(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds a thread while it is stored; there are two threads, and one for bulks."""
    begun, let_go, report_many = threading.Event(), threading.Event(), Competition.report_many

    def hold(self: Competition, *given: Any, **more: Any) -> Any:
        begun.set()
        assert let_go.wait(LONG)
        return report_many(self, *given, **more)

    monkeypatch.setattr(Competition, "report_many", hold)

    async def play() -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            assert (await site.v1("alice", "POST", "/challenges", json=new)).status_code == 201
            site.service.threads = FairThreads(2)
            site.service.bulk_turns = FairTurns(1)
            path, line = "/challenges/speed/reports", '{"agent": "bob", "metrics": {"rating": 1}}'

            def send(who: str) -> Coroutine[Any, Any, httpx.Response]:
                return site.v1(who, "POST", f"{path}?atomic=true", content=line, headers=NDJSON)

            asked = [*spawn(3, lambda: send("rita")), *spawn(3, lambda: send("alice"))]
            await until(begun.is_set)
            assert (await site.v1("charlie", "GET", "/challenges/speed")).status_code == 200
            assert not any(each.done() for each in asked)
            let_go.set()
            assert {(await each).status_code for each in asked} == {200}

    asyncio.run(play())


def test_probes_need_none_of_the_threads_of_requests(empty_url: str) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            let_go, limiter = threading.Event(), to_thread.current_default_thread_limiter()
            site.service.threads = FairThreads(1)
            limiter.total_tokens = 1
            shared = asyncio.create_task(to_thread.run_sync(let_go.wait, LONG))
            work = site.service.threads.run("mallory", let_go.wait, LONG)
            own = asyncio.create_task(work)
            await until(lambda: limiter.available_tokens == 0)
            for path in ("/healthz", "/readyz", "/metrics"):
                asked = site.ask("", "GET", path, address="127.0.0.1")
                shown = await asyncio.wait_for(asked, LONG / 2)
                assert shown.status_code == 200
            let_go.set()
            await asyncio.gather(shared, own)

    asyncio.run(play())


def test_bulk_reports_are_refused_when_too_many_wait(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(let_go: threading.Event) -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            assert (await site.v1("alice", "POST", "/challenges", json=new)).status_code == 201
            site.service.bulk_turns = FairTurns(1, 1, most_waiting=2)
            path, line = "/challenges/speed/reports", '{"agent": "bob", "metrics": {"rating": 1}}'
            asked = spawn(8, lambda: site.v1("rita", "POST", path, content=line, headers=NDJSON))
            await until(lambda: sum(each.done() for each in asked) == 5)
            let_go.set()
            found = [(await each).status_code for each in asked]
            assert sorted(found) == [200] * 3 + [503] * 5

    with held_commits(monkeypatch) as let_go:
        asyncio.run(play(let_go))


def test_who_may_not_enter_has_no_data_made(
    empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def generate(folder: Path, script: str, function: str, given: list[int], **_: Any) -> Any:
        made.append(given[0])
        return {"public": {"log.txt": "x"}, "truth": {}}

    monkeypatch.setattr(challenge_data, "call_script", generate)

    async def play() -> None:
        async with serve(empty_url) as site:
            folder = tmp_path / "log-detective"
            folder.mkdir()
            for each in (EXAMPLES / "log-detective").iterdir():
                if each.is_file():
                    text = each.read_text(encoding="utf-8")
                    text = text.replace("attempts: {total: 20, per_day: 10}", "attempts: 1")
                    (folder / each.name).write_text(text, encoding="utf-8")
            competition = site.service.tenant("default").competition
            await asyncio.to_thread(competition.publish, folder)
            path = "/challenges/log-detective/attempts"
            entered = await site.v1("bob", "POST", path, json={})
            assert (entered.status_code, len(made)) == (201, 1), entered.text
            again = await site.v1("bob", "POST", path, json={})
            assert again.json()["attempt"]["id"] == entered.json()["attempt"]["id"]
            assert again.json()["data"] == entered.json()["data"]
            gone = f"/attempts/{entered.json()['attempt']['id']}/withdraw"
            assert (await site.v1("bob", "POST", gone, json={})).status_code == 200
            refused = await site.v1("bob", "POST", path, json={})
            assert (refused.status_code, len(made)) == (409, 1), refused.text

    asyncio.run(play())


def test_ratings_are_made_once_and_counted_by_their_cost(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[int] = []

    def count(pairs: Any) -> Any:
        fitted.append(len(pairs))
        return fit(pairs)

    monkeypatch.setattr("tallymark.service.ratings.fit", count)

    async def play() -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            await site.v1("alice", "POST", "/challenges", json=new)
            report = {"agent": "bob", "metrics": {"rating": 5, "succeeded": True}}
            await site.v1("rita", "POST", "/challenges/speed/reports", json=report)
            site.service.limits = RateLimits(clock=lambda: 0.0)
            stranger = Caller("default", "anonymous", "anonymous", address="192.0.2.1")

            async def look(query: str = "") -> int:
                before = site.service.limits.look(stranger)[0].remaining
                shown = await asyncio.wait_for(site.ask("", "GET", f"/ratings{query}"), LONG)
                assert (shown.status_code, "bob" in shown.text) == (200, True), shown.text
                return before - site.service.limits.look(stranger)[0].remaining

            assert [await look(), await look(), await look("?sort=elo")] == [1 + TABLE_COST, 1, 1]
            assert len(fitted) == 1
            report["agent"] = "charlie"
            await site.v1("rita", "POST", "/challenges/speed/reports", json=report)
            assert (await look(), len(fitted)) == (1 + TABLE_COST, 2)
            first = await site.v1("", "GET", "/ratings")
            second = await site.v1("", "GET", "/ratings")
            assert first.content == second.content
            assert {each["agent"] for each in first.json()["items"]} == {"bob", "charlie"}
            assert len(fitted) == 2

    asyncio.run(play())


def test_boards_of_tracks_are_made_once_and_counted_by_their_cost(empty_url: str) -> None:
    async def play() -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            await site.v1("alice", "POST", "/challenges", json=new)
            report = {"agent": "bob", "metrics": {"rating": 5, "succeeded": True}}
            await site.v1("rita", "POST", "/challenges/speed/reports", json=report)
            site.service.limits = RateLimits(clock=lambda: 0.0)
            stranger = Caller("default", "anonymous", "anonymous", address="192.0.2.1")

            async def look() -> tuple[int, list[tuple[str, float]]]:
                before = site.service.limits.look(stranger)[0].remaining
                track = {"name": "all", "challenges": ["speed"]}
                shown = await site.v1("", "POST", "/tracks/leaderboard", json=track)
                assert shown.status_code == 200, shown.text
                items = [(each["agent"], each["value"]) for each in shown.json()["items"]]
                return before - site.service.limits.look(stranger)[0].remaining, items

            assert await look() == (1 + TABLE_COST, [("bob", 5.0)])
            assert await look() == (1, [("bob", 5.0)])
            report["metrics"] = {"rating": 7, "succeeded": True}
            await site.v1("rita", "POST", "/challenges/speed/reports", json=report)
            assert await look() == (1 + TABLE_COST, [("bob", 7.0)])

    asyncio.run(play())


@pytest.mark.parametrize("state", ["scored", "failed", "submitted"])
def test_a_frozen_list_reads_what_it_shows_and_no_more(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    read: list[str] = []
    history = Attempts.history

    def count(self: Attempts, identifier: str, **more: Any) -> Any:
        read.append(identifier)
        return history(self, identifier, **more)

    async def play() -> None:
        async with serve(empty_url) as site:
            new = {"name": "speed", "scoring_formula": "rating", "visibility": "public"}
            await site.v1("alice", "POST", "/challenges", json=new)
            path = "/challenges/speed/reports"
            line = {"agent": "bob", "metrics": {"rating": 1}}

            async def report(count: int) -> None:
                body = "\n".join([json.dumps(line)] * count)
                sent = await site.v1("rita", "POST", path, content=body, headers=NDJSON)
                assert sent.status_code == 200, sent.text

            await report(30)
            change = {"frozen": True, "reason": "the last hour"}
            frozen = await site.v1("alice", "PATCH", "/challenges/speed", json=change)
            assert frozen.status_code == 200, frozen.text
            await report(3)
            monkeypatch.setattr(Attempts, "history", count)
            listed = await site.v1("", "GET", f"/challenges/speed/attempts?state={state}&limit=10")
            found = listed.json()["items"]
            assert {each["state"] for each in found} <= {state}
            shown = {"scored": 10, "failed": 0, "submitted": 3}[state]
            assert len(found) == shown
            assert len(read) <= 11

    asyncio.run(play())
