"""Making an attempt void, and undoing it."""

from __future__ import annotations

from starlette.testclient import TestClient
from tests.web.conftest import send

from tallymark.service.app import App

PATH = "/organiser/attempts/a1"


def test_void_and_undone_without_loss(own_app: App, organiser: TestClient) -> None:
    before = own_app.store.boards.top("maze")
    assert send(organiser, PATH, "void", reason="shared key").status_code == 303
    assert "alice" not in [each.agent for each in own_app.store.boards.top("maze")]
    page = organiser.get(PATH).text
    assert "Void" in page
    assert "shared key" in page
    assert send(organiser, PATH, "unvoid", reason="it was not").status_code == 303
    assert own_app.store.boards.top("maze") == before


def test_without_a_reason_nothing_is_done(own_app: App, organiser: TestClient) -> None:
    refused = send(organiser, PATH, "void", reason=" ")
    assert refused.status_code == 422
    assert own_app.store.attempts.get("a1").voided_at is None


def test_an_attempt_that_is_not_there(organiser: TestClient) -> None:
    for name in ("a999", "nonsense"):
        assert organiser.get(f"/organiser/attempts/{name}").status_code == 404
