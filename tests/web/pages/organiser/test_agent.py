"""Disqualifying and reinstating an agent, and signing its owner out."""

from __future__ import annotations

from starlette.testclient import TestClient
from tests.web.conftest import browse_as, send

from tallymark.service.app import App

PATH = "/organiser/agents/alice"


def list_board(app: App) -> list[str]:
    return [each.agent for each in app.store.boards.top("maze")]


def test_disqualified_and_reinstated_without_loss(own_app: App, organiser: TestClient) -> None:
    before = list_board(own_app)
    assert send(organiser, PATH, "disqualify", reason="shared its key").status_code == 303
    assert "alice" not in list_board(own_app)
    page = organiser.get(PATH).text
    assert "Disqualified" in page
    assert "shared its key" in page
    assert send(organiser, PATH, "reinstate", reason="it did not").status_code == 303
    assert list_board(own_app) == before


def test_without_a_reason_nothing_is_done(own_app: App, organiser: TestClient) -> None:
    refused = send(organiser, PATH, "disqualify", reason="")
    assert refused.status_code == 422
    assert "needs a reason" in refused.text
    assert "alice" in list_board(own_app)


def test_an_agent_that_is_not_there(organiser: TestClient) -> None:
    assert organiser.get("/organiser/agents/nobody").status_code == 404


def test_an_admin_signs_an_owner_out_everywhere(own_app: App, organiser: TestClient) -> None:
    player = browse_as(own_app, "agent", "alice")
    assert player.get("/account").status_code == 200
    assert "everywhere" not in organiser.get(PATH).text
    assert send(organiser, PATH, "sign-out").status_code == 403
    assert player.get("/account").status_code == 200
    assert send(browse_as(own_app, "admin"), PATH, "sign-out").status_code == 303
    # Another server may remember a session for two seconds; this one is asked anew.
    other = browse_as(own_app)
    other.cookies = player.cookies
    assert other.get("/account").status_code == 401
