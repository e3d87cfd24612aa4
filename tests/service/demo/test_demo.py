"""An example store has something to say on every page, lives while it is served, and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tallymark.server import make_server
from tallymark.service.app import App
from tallymark.service.demo import Demo
from tallymark.service.demo.sample_field import BEANS, QUICK
from tallymark.service.keys import Invitations
from tallymark.service.resources import Resources
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings

NOW = 1_790_000_000.0
ADDRESS = "http://localhost:8321"


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """As on a machine that has no sandbox."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallymark.service.demo.demo._find_missing", lambda: "no sandbox works here")
        made = Demo()
    with made:
        made.fill(NOW)
        yield made


@pytest.fixture
def service(demo: Demo) -> Iterator[Service]:
    opened = Service(ServiceSettings(db=demo.db, demo=demo, workers=0), clock=lambda: NOW)
    yield opened
    opened.close()


def test_it_has_a_past_of_suites_that_changed(service: Service) -> None:
    for suite in ("support-desk", "capitals"):
        kept = service.app.store.runs(suite=suite, limit=None)
        assert {each.status for each in kept} == {"completed"}
        assert kept[0].created_at - kept[-1].created_at > 5 * 86_400
        assert len({each.score for each in kept}) > 3


def test_without_a_sandbox_it_plays_what_needs_none(service: Service) -> None:
    store = service.app.store
    names = {each.challenge.name for each in store.challenges.all()}
    assert names == {BEANS, "advanced-prompt-challenge", "fewest-words"}
    assert len(names) == len(QUICK)
    for name in names:
        assert store.boards.size(name) > 5


def test_the_field_moves_boards_by_the_services_of_the_server(demo: Demo, service: Service) -> None:
    store, competition = service.app.store, service.tenant("default").competition
    before = {each.id for each in store.contest_stats.newest_attempts(limit=50, as_frozen=True)}
    for nth in range(30):
        demo._field.take_turn(competition, NOW + 10 * nth)
    new = [
        each
        for each in store.contest_stats.newest_attempts(limit=50, as_frozen=True)
        if each.id not in before
    ]
    assert len(new) > 10
    assert all(each.outcome is None or each.outcome.score is not None for each in new)
    assert {each.state for each in new} <= {"entered", "scored"}


def test_rules_decide_on_the_traces_of_its_services(service: Service) -> None:
    tally = Resources(service.tenant("default"))
    assert {each.group for each in tally.traces.sums(by="service").items} == {
        *("shop-desk", "trip-planner", "report-writer")
    }
    reports = tally.rules.list().items
    assert all(each.counts.scored > 50 and each.trouble is None for each in reports)
    assert any(each.counts.capped for each in reports)
    assert any(each.counts.not_drawn for each in reports)
    found = tally.traces.compare("version:2.3.0", "version:2.4.0", "score.polite")
    assert found.difference is not None
    assert found.difference < 0


def test_readers_and_the_judge_disagree_on_some_cases(service: Service) -> None:
    scores = Resources(service.tenant("default")).scores
    queue = scores.queue("disputed")
    assert 0 < queue.counts.disputed < len({(each.run, each.case) for each in scores.list()})
    assert queue.counts.unseen


def test_traces_come_in_two_pieces(demo: Demo, service: Service) -> None:
    services = service.tenant("default")
    traces = Resources(services).traces
    before = traces.sums().whole.traces
    for nth in range(3):
        demo._traffic.send_some(services.trace_intake, NOW + nth)
    newest = traces.list(limit=3).items
    assert traces.sums().whole.traces == before + 3
    assert [each.has_root for each in newest] == [False, True, True]


def test_anybody_may_look_and_nobody_changes_it_by_looking(service: Service) -> None:
    client = TestClient(make_server(service), base_url=ADDRESS)
    shown = ("/", "/runs", f"/challenges/{BEANS}", "/agents", "/ratings")
    for path in (*shown, "/traces", "/rules", "/review"):
        page = client.get(path)
        assert page.status_code == 200, path
        assert "Example data" in page.text, path
        assert 'class="state' not in page.text, path  # nothing is empty
    assert client.get("/ratings?format=csv").text.count("sample-") > 5
    assert client.get("/api/v1/runs").status_code == 200
    entering = client.post(f"/api/v1/challenges/{BEANS}/attempts", json={"agent": "somebody"})
    assert entering.status_code == 401
    assert "Sign in to enter" in client.get(f"/challenges/{BEANS}/enter").text
    sent = {"do": "sign-out-everywhere", "csrf": ""}
    refused = client.post("/account", data=sent, headers={"Origin": ADDRESS})
    assert refused.status_code == 401
    assert "would change it for others" in refused.text


def test_whoever_is_invited_competes_with_an_agent_of_their_own(
    demo: Demo, service: Service
) -> None:
    invitation = demo.make_invitation(service)
    key = Invitations(service.tenant("default")).accept(invitation, "ines", "sherlock")
    client = TestClient(make_server(service), base_url=ADDRESS)
    entered = client.post(
        f"/api/v1/challenges/{BEANS}/attempts",
        json={"agent": "sherlock"},
        headers={"Authorization": f"Bearer {key.secret}"},
    )
    assert entered.status_code == 201, entered.text


def test_a_run_goes_on_while_it_is_served_and_ends_with_the_server(demo: Demo) -> None:
    service = Service(ServiceSettings(db=demo.db, demo=demo, workers=0))
    seen = threading.Event()
    with TestClient(make_server(service), base_url=ADDRESS):
        service.app.store.watch_commits(board=lambda *_: None, run=lambda *_: seen.set())
        assert seen.wait(60)
        assert service.app.store.runs(status="running")
    app = App(demo.db)
    assert not app.store.runs(status="running")
    assert app.store.runs(status="cancelled")[0].suite == "support-desk"
    app.close()


def test_it_leaves_nothing_behind() -> None:
    with Demo() as demo:
        assert demo.folder.exists()
    assert not demo.folder.exists()
