"""Who may see what."""

from __future__ import annotations

import pytest
from tests.web.conftest import browse_as

from tallymark.errors import WorkFailed
from tallymark.service.app import App

OF_RUNS = ("/runs", "/runs/rntwo", "/runs/rntwo/cases/case-0", "/compare?run=rnone&run=rntwo")


@pytest.mark.parametrize("address", OF_RUNS)
def test_runs_are_not_for_strangers(app: App, address: str) -> None:
    page = browse_as(app).get(address)
    assert page.status_code == 401
    assert "sample-careful" not in page.text


def test_a_key_that_may_not_see_runs_is_told_so(app: App) -> None:
    assert browse_as(app, "agent", "alice").get("/runs").status_code == 403


def test_strangers_find_nothing_of_runs_elsewhere(app: App) -> None:
    client = browse_as(app)
    for address in ("/", "/search?q=rn", "/formula", "/formula?run=rntwo"):
        page = client.get(address)
        assert page.status_code == (401 if "run=" in address else 200)
        assert "rntwo" not in page.text.replace("run=rntwo", "").replace("run%3Drntwo", ""), address


def test_what_an_evaluator_told_is_for_its_own_agent(app: App) -> None:
    alice = browse_as(app, "agent", "alice")
    assert "Evaluator output" in alice.get("/attempts/a1").text
    assert "Evaluator output" not in alice.get("/attempts/a2").text
    assert "Evaluator output" not in browse_as(app).get("/attempts/a1").text


def test_another_tenant_sees_nothing(app: App) -> None:
    client = browse_as(app, "viewer", tenant="other")
    assert client.get("/runs/rntwo").status_code == 404
    assert "The maze" not in client.get("/challenges").text


def test_strangers_know_of_public_challenges_alone(app: App) -> None:
    client = browse_as(app)
    assert client.get("/challenges/maze").status_code == 200
    assert client.get("/attempts/a1").status_code == 200
    private = client.get("/challenges/frugal")
    assert private.status_code == 404
    nothing = client.get("/challenges/nothing")
    assert nothing.text.replace("nothing", "frugal") == private.text
    hidden = app.store.boards.top("frugal", limit=1)[0].attempt
    assert client.get(f"/attempts/{hidden}").status_code == 404
    for address in ("/", "/challenges", "/search?q=frugal", "/sign-in"):
        assert "Frugal" not in client.get(address).text, address


def test_strangers_see_no_agents(app: App) -> None:
    client = browse_as(app)
    for address in ("/agents", "/agents/alice"):
        assert client.get(address).status_code == 401, address


def test_strangers_see_the_same_ratings_on_the_page_as_by_the_api(app: App) -> None:
    client = browse_as(app)
    page = client.get("/ratings")
    shown = client.get("/ratings?format=json").json()
    assert [each["challenge"] for each in shown["challenges"]] == ["maze"]
    assert shown["challenges"] == client.get("/api/v1/difficulties").json()["items"]
    assert shown["agents"] == client.get("/api/v1/ratings").json()["items"]
    assert "frugal" not in page.text
    assert "/agents/" not in page.text  # which they could not open
    known = browse_as(app, "viewer").get("/ratings")
    assert "frugal" in known.text
    assert "/agents/" in known.text


def test_that_somebody_is_at_it_now_is_not_told(app: App) -> None:
    open_attempt = "a7"
    for client in (browse_as(app), browse_as(app, "agent", "mallory")):
        assert client.get(f"/attempts/{open_attempt}").status_code == 404
        assert "erin" not in client.get("/").text
    assert browse_as(app, "agent", "erin").get(f"/attempts/{open_attempt}").status_code == 200


def test_where_the_database_is_is_not_told(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browse_as(app)

    def fail(*_: object, **__: object) -> None:
        raise WorkFailed(f"{app.store.shown} does not answer")

    monkeypatch.setattr("tallymark.store.contests.challenges.Challenges.all", fail)
    for address in ("/challenges", "/challenges?format=json"):
        page = client.get(address)
        assert page.status_code == 503
        assert "he database does not answer" in page.text
        assert app.store.shown not in page.text
