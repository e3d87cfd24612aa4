"""The client against a server: every route has a method, and each method works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.http.conftest import Server, furnish, listening, run_server

from tallymark.challenges.challenge_folder import pack
from tallymark.client import AsyncClient, Client
from tallymark.errors import NotAllowed, NotFound, NotSignedIn, WorkFailed
from tallymark.service.traces import pack_traces
from tallymark.traces import Trace

METHODS = {
    "POST /runs": "runs.create",
    "GET /runs": "runs.list",
    "GET /runs/{run}": "runs.get",
    "GET /runs/{run}/cases": "runs.cases",
    "GET /runs/{run}/cases/{case}": "runs.get_case",
    "GET /suites": "runs.suites",
    "GET /runs/{run}/events": "runs.events",
    "POST /runs/{run}/cancel": "runs.cancel",
    "PATCH /runs/{run}": "runs.rename",
    "DELETE /runs/{run}": "runs.delete",
    "POST /runs/{run}/rescore": "runs.rescore",
    "GET /compare": "runs.compare",
    "POST /challenges": "challenges.publish challenges.add",
    "POST /challenges/check": "challenges.check",
    "GET /challenges": "challenges.list",
    "GET /challenges/{name}": "challenges.get",
    "PATCH /challenges/{name}": "challenges.change",
    "DELETE /challenges/{name}": "challenges.delete",
    "POST /challenges/{name}/rescore": "challenges.rescore challenges.rescore_files",
    "GET /challenges/{name}/files": "challenges.files",
    "GET /challenges/{name}/leaderboard": "boards.get",
    "POST /challenges/{name}/what-if": "boards.what_if",
    "GET /challenges/{name}/events": "boards.events",
    "GET /challenges/{name}/history": "boards.history",
    "GET /challenges/{name}/tallies": "versus.tallies",
    "POST /challenges/{challenge}/attempts": "attempts.enter attempt",
    "GET /challenges/{challenge}/attempts": "attempts.list",
    "POST /attempts/{attempt}/check": "attempts.check",
    "POST /tracks": "tracks.publish",
    "GET /tracks": "tracks.list",
    "DELETE /tracks/{name}": "tracks.remove",
    "POST /tracks/leaderboard": "tracks.suppose_board",
    "GET /pauses": "challenges.pauses",
    "GET /waiting": "challenges.waiting",
    "GET /challenges/{name}/attempts/count": "challenges.count_attempts",
    "POST /challenges/{name}/resume": "challenges.resume",
    "POST /challenges/{name}/settle": "versus.settle",
    "PATCH /agents/{handle}": "agents.change",
    "POST /traces": "traces.load",
    "GET /tracks/{name}/leaderboard": "tracks.board",
    "POST /challenges/{name}/sides/{side}": "versus.submit",
    "GET /challenges/{name}/submissions": "versus.list",
    "GET /challenges/{name}/submissions/{submission}": "versus.get",
    "POST /challenges/{name}/reports": "reports.send reports.send_many",
    "GET /attempts/{attempt}": "attempts.get",
    "GET /attempts/{attempt}/token": "attempts.token",
    "GET /attempts/{attempt}/form": "attempts.form",
    "GET /attempts/{attempt}/submission": "attempts.submission",
    "POST /attempts/{attempt}/submission": "attempts.submit",
    "POST /attempts/{attempt}/withdraw": "attempts.withdraw",
    "POST /attempts/{attempt}/void": "attempts.void",
    "POST /attempts/{attempt}/unvoid": "attempts.unvoid",
    "GET /agents": "agents.list",
    "POST /agents": "accounts.register",
    "GET /agents/{handle}": "agents.get",
    "POST /agents/{handle}/disqualify": "agents.disqualify",
    "POST /agents/{handle}/reinstate": "agents.reinstate",
    "GET /agents/{handle}/rivals": "agents.rivals",
    "GET /agents/{handle}/against/{other}": "agents.compare",
    "GET /ratings": "ratings.list",
    "GET /ratings/{agent}": "ratings.get",
    "GET /difficulties": "ratings.challenges",
    "POST /formula/check": "formulas.check",
    "POST /formula/explain": "formulas.explain",
    "GET /jobs": "jobs.list",
    "GET /jobs/{job}": "jobs.get",
    "POST /jobs/{job}/cancel": "jobs.cancel",
    "POST /jobs/{job}/retry": "jobs.retry",
    "GET /keys": "keys.list",
    "POST /keys": "keys.add",
    "POST /keys/{key}/rotate": "keys.rotate",
    "POST /keys/{key}/revoke": "keys.revoke",
    "GET /me": "accounts.me",
    "GET /invitations": "invitations.list",
    "POST /invitations": "invitations.add",
    "POST /invitations/{invitation}/revoke": "invitations.revoke",
    "POST /invitations/accept": "invitations.accept",
    "GET /scores": "scores.list",
    "GET /scores/queue": "scores.queue",
    "GET /scores/case": "scores.case",
    "POST /scores": "scores.give",
    "PATCH /scores/{score}": "scores.change",
    "DELETE /scores/{score}": "scores.withdraw",
    "GET /vars": "settings.vars",
    "PUT /vars/{name}": "settings.set_var",
    "DELETE /vars/{name}": "settings.remove_var",
    "GET /secrets": "settings.secrets",
    "PUT /secrets/{name}": "settings.set_secret",
    "DELETE /secrets/{name}": "settings.remove_secret",
    "GET /limits": "limits.get",
    "GET /audit": "audit.list",
    "GET /tenants": "tenants.list",
    "POST /tenants": "tenants.add",
    "GET /tenants/{name}": "tenants.get",
    "PATCH /tenants/{name}": "tenants.change",
    "GET /export/{kind}": "exports.rows",
    "GET /traces": "traces.list",
    "GET /traces/sums": "traces.sums",
    "GET /traces/compare": "traces.compare",
    "GET /traces/worst": "traces.worst",
    "GET /traces/choices": "traces.choices",
    "GET /traces/sessions/{name}": "traces.session",
    "GET /traces/settings": "traces.settings",
    "PATCH /traces/settings": "traces.change_settings",
    "POST /traces/suite": "traces.make_suite",
    "GET /traces/{trace_id}": "traces.get",
    "DELETE /traces/{trace_id}": "traces.remove",
    "POST /traces/{trace_id}/scores": "traces.score",
    "POST /rules": "rules.add",
    "GET /rules": "rules.list",
    "POST /rules/check": "rules.try_out",
    "GET /rules/{name}": "rules.get",
    "DELETE /rules/{name}": "rules.archive",
    "POST /rules/{name}/versions": "rules.edit",
    "POST /rules/{name}/pause": "rules.pause",
    "POST /rules/{name}/resume": "rules.resume",
    "GET /rules/{name}/decisions": "rules.decisions",
    "GET /rules/{name}/spending": "rules.spending",
    "POST /rules/{name}/backfill": "rules.backfill",
    "POST /rules/{name}/backfill/preview": "rules.preview_backfill",
    "GET /rules/{name}/backfills": "rules.backfills",
    "GET /rules/{name}/backfills/{number}": "rules.get_backfill",
    "POST /webhooks": "webhooks.add",
    "GET /webhooks": "webhooks.list",
    "GET /webhooks/{webhook}": "webhooks.get",
    "POST /webhooks/{webhook}/pause": "webhooks.pause",
    "POST /webhooks/{webhook}/resume": "webhooks.resume",
    "POST /webhooks/{webhook}/rotate": "webhooks.rotate",
    "DELETE /webhooks/{webhook}": "webhooks.remove",
    "POST /webhooks/{webhook}/ping": "webhooks.ping",
    "GET /webhooks/{webhook}/deliveries": "webhooks.deliveries",
    "POST /webhooks/{webhook}/deliveries/{delivery}/replay": "webhooks.replay",
    "POST /runs/{run}/gates": "webhooks.report_failed_gate",
}
"""Every route, and the methods that use it."""
NOT_IN_CLIENT: dict[str, str] = {}
"""Routes without a method, and why."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(str(tmp_path_factory.mktemp("client") / "tally.db"), workers=1) as running:
        furnish(running)
        yield running


def connect(server: Server, who: str) -> Client:
    """Open a person's client in this process."""
    return Client("http://tally.test", server.keys.get(who), http=server.client)


def test_every_route_has_a_method(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    routes = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/api/v1/")
    }
    assert routes == METHODS.keys() | NOT_IN_CLIENT.keys()
    client = connect(server, "ada")
    for names in METHODS.values():
        for name in names.split():
            assert callable(attrgetter(name)(client)), name


def test_runs_are_kept_listed_and_read(server: Server) -> None:
    client = connect(server, "rita")
    results = [{"case": name, "status": "passed"} for name in "abc"]
    kept = client.runs.create(run={"suite": "letters", "model": "echo/me", "results": results})
    assert kept.run.score == 100
    assert [each.id for each in client.runs.list(suite="letters")] == [kept.run.id]
    assert client.runs.get(kept.run.id).suite == "letters"
    assert [each.case for each in client.runs.cases(kept.run.id)] == ["a", "b", "c"]
    events = list(client.runs.events(kept.run.id))
    assert events[-1].data["status"] == "completed"


def test_lists_go_on_over_pages(server: Server) -> None:
    client = connect(server, "rita")
    for number in range(5):
        client.reports.send("secret", f"agent-{number}", {"succeeded": True, "rating": number})
    first = client.boards.get("secret", limit=2)
    assert (len(list(first)), first.agents) == (2, 5)
    # Without a limit of the caller, iterating goes on through the following pages.
    rest = client.boards.get("secret", cursor=first.next)
    assert [each.agent for each in (*first, *rest)] == [
        *("agent-4", "agent-3", "agent-2", "agent-1", "agent-0")
    ]


def test_an_attempt_is_a_with(server: Server) -> None:
    client = connect(server, "bob")
    with client.attempt("sums") as attempt:
        assert attempt.goal == "Add up."
        assert attempt.check({"sum": 42}).acceptable
        assert not attempt.check({"sum": 42}, trajectory="no trace").acceptable
        done = attempt.submit({"sum": 42})
    assert done.result == "win"
    assert done.score_breakdown is not None
    assert client.attempts.get(attempt.id).state == "scored"


def test_many_reports_are_each_answered(server: Server) -> None:
    good = {"agent": "bob", "metrics": {"succeeded": True, "rating": 5}}
    lines = b"\n".join(map(msgspec.json.encode, [good, {"agent": "B"}, good]))
    done = connect(server, "rita").reports.send_many("speed", lines)
    assert [each.status for each in done.items] == [201, 422, 201]


@pytest.mark.parametrize(
    ("who", "kind"), [("victor", NotAllowed), ("bob", NotAllowed), ("nobody", NotSignedIn)]
)
def test_refusals_are_errors_of_the_library(
    server: Server, who: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        connect(server, who).challenges.add("mine")


def test_what_is_not_there_says_so(server: Server) -> None:
    with pytest.raises(NotFound, match="there is no run"):
        connect(server, "ada").runs.get("nothing")


def test_accounts_and_settings(server: Server) -> None:
    client = connect(server, "ada")
    made = client.keys.add("ci", role="viewer")
    assert made.secret is not None
    assert client.keys.revoke(made.key.id).revoked_at is not None
    invited = client.invitations.add(role="agent")
    assert invited.code is not None
    accepted = client.invitations.accept(invited.code, owner="dana", agent="dana-1")
    assert accepted.key.agent == "dana-1"
    client.settings.set_var("ENDPOINT", "x")
    assert client.settings.vars()["ENDPOINT"] == "x"
    client.settings.remove_var("ENDPOINT")
    assert client.accounts.me().role == "admin"
    assert client.audit.list(event="key created").items[0].actor


class Dropping:
    """A way to a server on which every first answer to a request is lost after it was given."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.timeout = server.client.timeout
        self.lost: list[str] = []

    @contextmanager
    def stream(self, **asked: Any) -> Iterator[Any]:
        with self._server.client.stream(**asked) as answer:
            named = f"{asked['method']} {asked['url']}"
            if named not in self.lost:
                answer.read()
                self.lost.append(named)
                raise httpx2.ReadError("the connection was lost")
            yield answer


def test_what_was_done_when_the_connection_broke_is_done_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallymark.client.connection.time.sleep", lambda _: None)
    dropping = Dropping(server)
    client = Client("http://tally.test", server.keys["ada"], http=dropping)  # type: ignore[arg-type]
    client.settings.set_var("CITY", "Paris")
    client.settings.remove_var("CITY")
    client.rules.add({"name": "thrifty", "formula": "1 - min(1, cost)"})
    assert client.rules.pause("thrifty").state == "paused"
    assert client.rules.archive("thrifty").state == "deleted"
    assert client.challenges.change("secret", closed=True, reason="a test").closed is not None
    assert client.challenges.change("secret", frozen=True, reason="a test").frozen is not None
    entered = client.attempts.enter("sums", agent="dora")
    done = client.attempts.submit(entered.attempt.id, {"sum": 42})
    assert (done.result, done.attempt.number) == ("win", 1)
    made = client.keys.add("lost", role="viewer")
    assert made.secret is None, "what is shown once was shown to nobody"
    kept = client.keys.list()
    assert [each.name for each in kept].count("lost") == 1
    assert len(dropping.lost) == 10


def test_an_answer_that_is_still_to_come_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("tallymark.client.connection.time.sleep", waited.append)
    later = [httpx2.Response(409, headers={"retry-after": "1"})] * 8
    answers = iter([*later, httpx2.Response(200, json={"vars": {}})])
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: next(answers)))
    Client("http://tally.test", "tly_x", http=http).settings.set_var("CITY", "Paris")
    assert waited == [1.0] * 8


def test_a_call_may_have_a_time_of_its_own() -> None:
    seen: list[tuple[str, float, str | None]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        times, key = request.extensions["timeout"], request.headers.get("idempotency-key")
        seen.append((request.method, times["read"], key))
        return httpx2.Response(200, json={"vars": {}, "items": [], "next": None})

    http = httpx2.Client(transport=httpx2.MockTransport(answer), timeout=60)
    client = Client("http://tally.test", "tly_x", http=http)
    client.with_options(timeout=3, idempotency_key="k").settings.set_var("CITY", "Paris")
    assert list(client.with_options(timeout=4).runs.list()) == []
    client.settings.vars()
    assert seen == [("PUT", 3, "k"), ("GET", 4, None), ("GET", 60, None)]


def test_traces_and_rules_are_asked_of_like_the_rest(server: Server) -> None:
    client = connect(server, "alice")
    found = list(client.traces.list())
    trace = client.traces.get(found[0].id)
    assert trace.trace["spans"]
    assert client.traces.list(limit=1).items[0].id == found[0].id
    (line,) = pack_traces([Trace.from_dict(trace.trace)])
    assert client.traces.load(line).known == 1
    assert client.traces.sums(by="model").whole.traces == len(found)
    assert client.traces.compare("status:ok", "status:error", "cost").verdict
    assert client.traces.score(trace.id, "polite", 0.5, reason="fine").value == 0.5
    assert client.traces.worst("people.polite").items[0].trace.id == trace.id
    assert "polite" in client.traces.choices().people
    assert client.traces.make_suite(traces=[trace.id]).cases == 1
    assert client.traces.change_settings(keep_days=30).keep_days == 30
    assert client.traces.change_settings(keep_days=None).keep_days is None
    assert client.traces.settings().keep_days is None
    rule = client.rules.get("sparing")
    assert rule.versions[0].number == 1
    assert client.rules.edit("sparing", {"formula": "min(1, cost)"}).version == 2
    assert [each.name for each in client.rules.list()] == ["sparing"]
    # A worker of the server may have scored the trace by now: a formula, without cap or cost.
    assert list(client.rules.decisions("sparing", decision="capped")) == []
    assert sum(day.spent for day in client.rules.spending("sparing").days) == 0.0
    assert client.rules.preview_backfill("sparing", 0.0, 1.0).to_score == 0
    started = client.rules.backfill("sparing", 0.0, 1.0).backfill
    assert started is not None
    assert client.rules.get_backfill("sparing", started.id).job == started.job
    assert [each.id for each in client.rules.backfills("sparing")] == [started.id]
    client.traces.remove(trace.id)
    with pytest.raises(NotFound):
        client.traces.get(trace.id)


def test_tracks_tenants_and_exports(server: Server) -> None:
    client = connect(server, "ada")
    assert client.tracks.publish("both", ["speed", "secret"]).challenges == ("speed", "secret")
    board = client.tracks.board("both", live=True)
    assert board.items[0].rank == 1
    assert [each.name for each in client.tracks.list()] == ["both"]
    first = client.tracks.board("both", limit=1)
    assert client.tracks.board("both", limit=1, cursor=first.next).items[0].rank == 2
    assert client.tracks.remove("both").title == "both"
    assert list(client.tracks.list()) == []
    assert {each.name for each in client.tenants.list()} == {"default", "elsewhere"}
    rows = list(client.exports.rows("board", challenge="speed"))
    assert [each["agent"] for each in rows][:1] == ["charlie"]
    with pytest.raises(NotFound):
        list(client.exports.rows("board", challenge="nothing"))


def test_a_folder_is_published(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "sums2"
    folder.mkdir()
    (folder / "challenge.yaml").write_text(
        "name: sums2\ngoal: Add.\n"
        "evaluator: {type: deterministic, truth: truth.json, "
        "fields: {sum: {dimension: correctness}}}\n"
        "scoring: {strategy: custom, dimensions: {correctness: 0.8, speed: 0.2}}\n"
    )
    (folder / "truth.json").write_text('{"sum": 1}')
    client = connect(server, "alice")
    assert client.challenges.publish(pack(folder)).name == "sums2"
    assert client.challenges.change("sums2", frozen=True, reason="a test").frozen is not None


def test_the_other_client_hears_what_changes_on_a_board(tmp_path: Path) -> None:
    async def main(server: Server, url: str) -> tuple[str, list[str]]:
        async with AsyncClient(url, server.keys["rita"]) as client:
            heard = client.boards.events("speed")
            first = await anext(heard)
            await client.reports.send("speed", "dora", {"succeeded": True, "rating": 10})
            told = await anext(heard)
            await heard.aclose()  # type: ignore[attr-defined]
            return first.kind, [each["agent"] for each in told.data["changed"]]

    with run_server(str(tmp_path / "tally.db"), workers=0) as server:
        furnish(server)
        with listening(server) as url:
            first, changed = asyncio.run(main(server, url))
    assert first == "ready"
    assert "dora" in changed


def test_a_server_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallymark.client.connection.time.sleep", lambda _: None)
    with pytest.raises(WorkFailed, match="cannot be reached"):
        list(islice(Client("http://127.0.0.1:9", "tly_x").runs.list(), 1))
