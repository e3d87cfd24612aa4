"""Keys and invitations: made and shown once, rotated, revoked; registration is an admin's."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse_as, make_service, send

from tallymark.errors import NotSignedIn
from tallymark.service.app import App
from tallymark.service.keys import Invitations

PATH = "/organiser/keys"


def read_secret(page: str) -> str:
    found = re.search(r"<code>(tl[yi]_[^<]+)</code>", page)
    assert found is not None
    return found[1]


def test_a_key_is_shown_once_and_opens(own_app: App, organiser: TestClient) -> None:
    made = send(organiser, PATH, "make", role="agent", agent="rosa", owner="rosa@example.org")
    key = read_secret(made.text)
    caller = make_service(own_app).accounts.authenticate(key)
    assert (caller.role, caller.agent, caller.owner) == ("agent", "rosa", "rosa@example.org")
    assert key not in organiser.get(PATH).text
    assert "rosa" in organiser.get(f"{PATH}?q=rosa").text
    assert "no-store" in made.headers["cache-control"]


@pytest.mark.parametrize("role", ["admin", "organiser"])
def test_an_organiser_makes_no_key_of_those_above(
    own_app: App, organiser: TestClient, role: str
) -> None:
    assert f"<option>{role}" not in organiser.get(PATH).text
    for do in ("make", "invite"):
        assert send(organiser, PATH, do, role=role).status_code == 403


def test_what_cannot_be_a_key_is_said_at_the_form(organiser: TestClient) -> None:
    refused = send(organiser, PATH, "make", role="agent", owner="Not An Owner!", agent="rosa")
    assert refused.status_code == 422
    assert "cannot be an owner" in refused.text
    assert 'value="Not An Owner!"' in refused.text
    for days in ("-1", "soon", "nan", "1e999"):
        assert send(organiser, PATH, "make", role="viewer", days=days).status_code == 422, days
    for uses in ("0", "-1", "x", "9" * 30):
        assert send(organiser, PATH, "invite", role="viewer", uses=uses).status_code == 422, uses


def test_rotated_the_old_one_works_on_for_a_while_and_revoked_it_does_not(
    own_app: App, organiser: TestClient
) -> None:
    old = read_secret(send(organiser, PATH, "make", role="viewer", owner="vera").text)
    found = organiser.get(f"{PATH}?q=vera&format=json").json()["keys"][0]["id"]
    new = read_secret(send(organiser, PATH, "rotate", key=found, hours="2").text)
    accounts = make_service(own_app).accounts
    assert accounts.authenticate(old).owner == accounts.authenticate(new).owner == "vera"
    for key in organiser.get(f"{PATH}?q=vera&format=json").json()["keys"]:
        assert send(organiser, PATH, "revoke", key=key["id"]).status_code == 303
    with pytest.raises(NotSignedIn):
        make_service(own_app).accounts.authenticate(new)


def test_an_organiser_revokes_no_admins_key(own_app: App, organiser: TestClient) -> None:
    admin = browse_as(own_app, "admin")
    found = admin.get(f"{PATH}?format=json").json()["keys"]
    key = next(each["id"] for each in found if each["role"] == "admin")
    assert key not in organiser.get(f"{PATH}?state=all").text
    for do in ("revoke", "rotate"):
        assert send(organiser, PATH, do, key=key).status_code == 404


def test_an_invitation_is_shown_once_used_and_withdrawn(
    own_app: App, organiser: TestClient
) -> None:
    code = read_secret(send(organiser, PATH, "invite", role="agent", uses="2").text)
    assert code not in organiser.get(PATH).text
    invitations = Invitations(make_service(own_app).tenant("default"))
    assert invitations.accept(code, "ivan", "ivan-bot").key.agent == "ivan-bot"
    left = organiser.get(f"{PATH}?format=json").json()["invitations"]
    assert [each["uses_left"] for each in left] == [1]
    assert send(organiser, PATH, "withdraw", invitation=left[0]["id"]).status_code == 303
    assert not organiser.get(f"{PATH}?format=json").json()["invitations"]


def test_registration_is_an_admins(own_app: App, organiser: TestClient) -> None:
    assert "Who may register" not in organiser.get(PATH).text
    assert send(organiser, PATH, "settle", registration="open").status_code == 403
    admin = browse_as(own_app, "admin")
    assert "Who may register" in admin.get(PATH).text
    done = send(admin, PATH, "settle", registration="open", agents_per_owner="7")
    assert done.status_code == 303
    settings = own_app.store.tenants.settings()
    assert (settings.registration, settings.agents_per_owner) == ("open", 7)
    for wrong in ({"registration": "ajar"}, {"registration": "open", "agents_per_owner": "x"}):
        assert send(admin, PATH, "settle", **wrong).status_code == 422


def test_tenants_are_listed_for_operators_alone(own_app: App, organiser: TestClient) -> None:
    inside = browse_as(own_app, "admin", tenant="elsewhere")
    assert "Tenants" in browse_as(own_app, "admin").get(PATH).text
    for client in (inside, organiser):
        assert "Tenants" not in client.get(PATH).text
