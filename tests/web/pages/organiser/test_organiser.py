"""Who may organise: organisers and admins of the tenant, and nobody else, whatever they send."""

from __future__ import annotations

import pytest
from tests.web.conftest import ADDRESS, browse, browse_as
from tests.web.page_samples import JOB, list_addresses
from tests.web.pages.organiser.conftest import post

from tallymark.service.app import App
from tallymark.web.site import PAGES

PARAMS = {"name": "maze", "attempt": "a1", "agent": "alice", "job": JOB}
OURS = [page for page in PAGES if page.path.startswith("/organiser")]
ACTIONS = [(page.path.format(**PARAMS), do) for page in OURS for do in page.actions]
FORM = {
    "reason": "because",
    "visibility": "private",
    "name": "maze",
    "role": "admin",
    "registration": "open",
    "job": JOB,
    "challenge": "maze",
    "agent": "alice",
    "count": "1",
    "name-0": "challenge.yaml",
    "text-0": "name: maze",
}


def count_acts(app: App) -> int:
    entries = app.store.audit_log.entries(limit=1000)
    return sum(each.event not in ("signed in", "key made", "key created") for each in entries)


@pytest.mark.parametrize(
    ("role", "agent", "status"),
    [("agent", "alice", 403), ("viewer", None, 403), ("reporter", None, 403),
     ("anonymous", None, 401)],
)  # fmt: skip
def test_others_see_no_page_and_do_nothing(
    app: App, role: str, agent: str | None, status: int
) -> None:
    client = browse_as(app, role, agent)
    before = count_acts(app)
    for address in list_addresses(app.store):
        if address.startswith("/organiser"):
            found = client.get(address)
            assert found.status_code == status, address
            assert "The maze" not in found.text, address
    for path, do in ACTIONS:
        assert post(client, path, do, **FORM).status_code == status, (path, do)
    assert count_acts(app) == before
    assert 'href="/organiser"' not in client.get("/").text


def test_an_organiser_of_another_tenant_finds_nothing_here(app: App) -> None:
    client = browse_as(app, "organiser", tenant="elsewhere")
    before = len(app.store.audit_log.entries(limit=1000))
    for page in OURS:
        if "{" in page.path:
            assert client.get(page.path.format(**PARAMS)).status_code == 404, page.path
    for path, do in ACTIONS:
        if path.count("/") > 2:  # of a challenge, an attempt, an agent or a job of this tenant
            assert post(client, path, do, **FORM).status_code == 404, (path, do)
    for do in ("retry", "cancel", "resume"):
        assert post(client, "/organiser", do, **FORM).status_code == 404, do
    assert len(app.store.audit_log.entries(limit=1000)) == before
    assert "maze" not in client.get("/organiser").text


@pytest.mark.parametrize("role", ["organiser", "admin"])
def test_organisers_are_led_there_from_every_page(app: App, role: str) -> None:
    client = browse_as(app, role)
    assert 'href="/organiser"' in client.get("/").text
    front = client.get("/organiser").text
    assert 'href="/organiser/challenges/maze"' in front
    assert "Visibility" in client.get("/organiser/challenges/maze").text


def test_a_form_without_the_sessions_token_does_nothing(app: App) -> None:
    client = browse_as(app, "organiser")
    sent = {**FORM, "do": "freeze", "csrf": "guessed"}
    for headers in ({"Origin": ADDRESS}, {"Origin": "https://elsewhere.example"}):
        refused = client.post("/organiser/challenges/maze", data=sent, headers=headers)
        assert refused.status_code == 403
    assert not app.store.challenges.find("maze").held_at


def test_pages_of_one_attempt_agent_and_challenge_lead_to_their_organising(app: App) -> None:
    client = browse(app)
    for path, link in (
        ("/attempts/a1", "/organiser/attempts/a000000000001"),
        ("/agents/alice", "/organiser/agents/alice"),
        ("/challenges/maze", "/organiser/challenges/maze"),
    ):
        assert f'href="{link}"' in client.get(path).text, path
