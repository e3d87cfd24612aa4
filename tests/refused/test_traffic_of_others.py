"""No id, number, cursor or tag tells a tenant how much the others do.

In a second world the other tenant does twice what the observer does. All answers to the observer
must be the same in both worlds, with cursors decoded.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql
from starlette.testclient import TestClient
from tests.http.conftest import Unlimited
from tests.http.test_attempts import EXAMPLES
from tests.postgres import Postgres
from tests.refused.two_worlds import SUMS
from tests.service.account_samples import make_key
from tests.store.contest_samples import quick_store

from tallymark.challenges.challenge_folder import pack
from tallymark.server import make_server
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.keys import Tenants
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.rule_work import RuleWork
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store.row_numbers import NUMBERED

START = 1_800_000_000.0
TENANTS = ("default", "elsewhere")
PACKED = {"Content-Type": "application/octet-stream"}
SPAN = {
    "spanId": "eee19b7ec3c1b174",
    "name": "chat",
    "startTimeUnixNano": "1000000000",
    "endTimeUnixNano": "2000000000",
}
_MASKS = (
    (r"\b(?:key|inv|whk|whd|j|rn)_?[0-9a-z]{9,}", "RANDOM"),
    (r"\b(?:tly|tli|whsec)_[^\"\s]+", "SECRET"),
    (r"\btlw_(a[0-9]+)_[0-9a-z]+", r"TOKEN of \1"),
    (r'(name="csrf" value=")[^"]*', "CSRF"),
    (r'"request_id":"[^"]*"', "REQUEST"),
    # Jobs go by the clock of the database, which is today's.
    (r"\b1[67][0-9]{8}(?:\.[0-9]+)?\b", "TODAY"),
)


class Player:
    """The people of a tenant, who act one by one and note all answers."""

    def __init__(self, client: TestClient, service: Service, clock: list[float], tenant: str):
        self.client, self.clock = client, clock
        self.store = service.tenant(tenant).store
        self.notes: list[str] = []
        self.keys: dict[str, str] = {}
        draws = itertools.count(1)
        service.tenant(tenant).competition._draw = lambda: next(draws)
        for name, role in (("admin", "admin"), ("bob", "agent"), ("eve", "agent")):
            agent = name if role == "agent" else None
            clock[0] += 1  # lists of keys are ordered by time
            self.keys[name] = make_key(service, role, tenant, owner=name, agent=agent)
        self.session = service.accounts.sign_in(self.keys["admin"]).token or ""

    def ask(self, who: str, method: str, path: str, **more: Any) -> Any:
        """Ask for somebody, and note the answer."""
        headers = {**more.pop("headers", {}), "Authorization": f"Bearer {self.keys[who]}"}
        answered = self.client.request(method, path, headers=headers, **more)
        assert answered.is_success, (path, answered.text)
        body = answered.json() if answered.headers["content-type"] == "application/json" else {}
        seen = {name: answered.headers.get(name) for name in ("etag", "location", "link")}
        cursor = body.get("next") if isinstance(body, dict) else None
        self._note(f"{method} {path} {seen} {answered.text}", cursor)
        return body

    def v1(self, who: str, method: str, path: str, **more: Any) -> Any:
        """Ask below the prefix of the API."""
        return self.ask(who, method, f"/api/v1{path}", **more)

    def look(self, path: str) -> None:
        """Note a page as the admin sees it."""
        self.client.cookies.set(SESSION_COOKIE, self.session)
        self._note(f"{path} {self.client.get(path).text}")
        self.client.cookies.clear()

    def read_all(self, path: str) -> None:
        """Note the pages of a list, one item each."""
        cursor, mark = "", "&" if "?" in path else "?"
        while True:
            more = f"&cursor={cursor}" if cursor else ""
            cursor = self.v1("admin", "GET", f"{path}{mark}limit=1{more}").get("next")
            if not cursor:
                return

    def _note(self, text: str, cursor: str | None = None) -> None:
        if cursor:
            decoded = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
            text = text.replace(cursor, decoded)
        text = re.sub(r"cursor=[^ &]+", "cursor", text)
        for pattern, instead in _MASKS:
            text = re.sub(pattern, instead, text)
        self.notes.append(text)

    def score_traces(self) -> None:
        """Settle traces and apply the rules, as workers do."""
        self.store.traces.finalise(self.clock[0] + 3600.0)
        RuleWork(self.store, RemoteRules(), lambda: self.clock[0]).decide()
        for each in self.store.rules.list():
            RuleWork(self.store, RemoteRules(), lambda: self.clock[0]).score(each.id)

    def play(self, again: str, sums: bytes) -> Iterator[None]:
        """Act, with a pause after each step; `again` makes names unique."""
        speed = f"speed{again}"
        challenge = {"name": speed, "scoring_formula": "rating * 10", "visibility": "public"}
        self.v1("admin", "POST", "/challenges", json=challenge)
        yield
        self.v1("admin", "POST", "/challenges?force=true", content=sums, headers=PACKED)
        yield
        self.v1(
            "admin",
            "POST",
            "/challenges?force=true",
            content=pack(EXAMPLES / "red-blue-guard"),
            headers=PACKED,
        )
        yield
        for who in ("bob", "eve"):
            report = {"agent": who, "metrics": {"succeeded": True, "rating": 7}}
            self.v1("admin", "POST", f"/challenges/{speed}/reports", json=report)
            yield
            entered = self.v1(who, "POST", "/challenges/sums/attempts", json={})
            yield
            path = f"/attempts/{entered['attempt']['id']}"
            self.v1(who, "POST", f"{path}/submission", json={"answer": {"sum": 2}})
            yield
            content = {"answer": f"an attack{again}"}
            self.v1(who, "POST", "/challenges/red-blue-guard/sides/red", json=content)
            yield
        run = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}
        sent = self.v1("admin", "POST", "/runs", json={"run": run})["run"]["id"]
        yield
        for name in ("tone", "length"):
            score = {"run": sent, "case": "a", "name": name, "value": 1}
            self.v1("admin", "POST", "/scores", json=score)
            yield
        hook = {"url": "https://8.8.8.8/x", "events": ["attempt.failed"]}
        made = self.v1("admin", "POST", "/webhooks", json=hook)["webhook"]["id"]
        for _ in range(2):
            self.v1("admin", "POST", f"/webhooks/{made}/ping")
            yield
        yield from self._play_with_traces(again)
        for _ in range(2):
            self.v1("admin", "POST", "/keys", json={"role": "viewer", "name": "victor"})
            yield
            self.v1("admin", "POST", "/invitations", json={"role": "viewer"})
            yield
        closed = {"closed": True, "reason": "enough"}
        self.v1("admin", "PATCH", f"/challenges/{speed}", json=closed)
        yield
        self.hooks = [made]

    def _play_with_traces(self, again: str) -> Iterator[None]:
        rules = (f"frugal{again}", f"quick{again}")
        for name in rules:
            rule = {"name": name, "formula": "1 - min(1, errors)"}
            self.v1("admin", "POST", "/rules", json=rule)
            yield
            edited = {"formula": "1 - min(1, 2 * errors)"}
            self.v1("admin", "POST", f"/rules/{name}/versions", json=edited)
            yield
        for number in (1, 2):
            span = SPAN | {"traceId": f"{number}".zfill(31) + (again[-1:] or "0")}
            spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
            self.ask("admin", "POST", "/v1/traces", json=spans)
            yield
        self.score_traces()
        yield
        for name in rules:
            since = {"since": 0.0, "until": 100.0}
            self.v1("admin", "POST", f"/rules/{name}/backfill", json=since)
            yield

    def read(self) -> None:
        """Note everything that has a number."""
        for path in (
            *("/challenges", "/scores", "/jobs", "/rules", "/traces", "/keys", "/invitations"),
            *("/audit", "/agents", "/runs", "/webhooks"),
            *("/challenges/speed/attempts", "/challenges/sums/attempts"),
            *("/challenges/speed/leaderboard", "/challenges/sums/leaderboard"),
            *("/challenges/red-blue-guard/leaderboard", "/challenges/red-blue-guard/submissions"),
            *("/rules/quick/backfills", "/rules/quick/decisions"),
            *(f"/webhooks/{each}/deliveries" for each in self.hooks),
        ):
            self.read_all(path)
        for path in (
            *("/rules/quick", "/ratings", "/export/attempts?challenge=speed", "/export/audit"),
            *("/export/scores", "/export/traces", "/challenges/speed", "/challenges/sums"),
        ):
            self.v1("admin", "GET", path)
        for path in ("/challenges/speed", "/challenges/red-blue-guard", "/organiser/audit"):
            self.look(path)


def live(url: str, observer: str, traffic: int, sums: bytes) -> list[str]:
    """All answers to a tenant, while the other one does the same so many times."""
    clock = [START]
    service = Service(ServiceSettings(db=url, workers=0), clock=lambda: clock[0])
    service.limits = Unlimited()
    with TestClient(make_server(service), base_url="http://tally.test") as client:
        Tenants(service.tenant("default")).add("elsewhere")
        players = {each: Player(client, service, clock, each) for each in TENANTS}
        mine = players.pop(observer)
        (busy,) = players.values()
        others = [busy.play("", sums), busy.play("-2", sums)][:traffic]
        for _ in mine.play("", sums):
            clock[0] += 10
            for each in others:
                next(each, None)
        mine.read()
    return mine.notes


@pytest.fixture
def sums(tmp_path: Path) -> bytes:
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "challenge.yaml").write_text(SUMS)
    (folder / "truth.json").write_text('{"sum": 2}')
    return pack(folder)


@pytest.mark.parametrize("observer", TENANTS)
def test_what_another_tenant_does_moves_no_number(
    request: pytest.FixtureRequest, empty_url: str, tmp_path: Path, sums: bytes, observer: str
) -> None:
    other: str = f"sqlite:///{tmp_path}/other.db"
    if "postgres" in empty_url:
        server: Postgres = request.getfixturevalue("postgres")
        other = server.fresh()
    alone, beside = live(other, observer, 0, sums), live(empty_url, observer, 2, sums)
    assert len(alone) > 80
    for one, two in zip(alone, beside, strict=True):
        assert one == two
    check_ranges(empty_url)


def check_ranges(url: str) -> None:
    """Every row has a number that its tenant has taken."""
    with quick_store(url) as store, store._database.read() as connection:
        for noun, column in NUMBERED.items():
            query = f"""
                SELECT count(*), count(row_numbers.noun) FROM {noun} LEFT JOIN row_numbers
                ON row_numbers.tenant = {noun}.tenant AND row_numbers.noun = '{noun}'
                AND {noun}.{column} > row_numbers.start AND {noun}.{column} <= row_numbers.last
            """
            rows, numbered = connection.execute(sql(query)).one()
            assert rows == numbered > 0, noun
