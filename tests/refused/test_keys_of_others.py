"""Ways to act as somebody else, or where one has no business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.service.account_samples import act, make_key
from tests.store.contest_samples import a_challenge, quick_store

from tallymark.challenges.attempt import Metrics, Payload
from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn
from tallymark.service.accounts import AccountService
from tallymark.service.agents import Agents
from tallymark.service.app import App
from tallymark.service.callers import KEY_ROLES, Caller, Role
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import Store

EVE = Caller("default", "anonymous", "anonymous", address="192.0.2.7")


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with quick_store(empty_url) as opened:
        yield opened


@pytest.fixture
def service(store: Store) -> Service:
    made = Service(ServiceSettings(), clock=lambda: 1000.0)
    made.app = App.over(store)
    return made


@pytest.fixture
def accounts(service: Service) -> AccountService:
    return service.accounts


@pytest.fixture
def operator(accounts: AccountService) -> Caller:
    return accounts.authenticate(accounts.ensure_admin_key() or "")


def test_a_key_of_one_tenant_manages_nothing_of_another(
    service: Service, accounts: AccountService, operator: Caller
) -> None:
    tenants = act(service, operator).tenants
    ours = accounts.authenticate(str(tenants.add("ours").secret))
    key = tenants.add("theirs").key
    theirs, own = act(service, ours, "theirs"), act(service, ours)
    assert theirs.keys.list().items == []
    for work in (
        lambda: theirs.keys.revoke(key.id),
        lambda: theirs.keys.rotate(key.id),
        lambda: own.keys.revoke(key.id),
        lambda: theirs.keys.add("ci"),
        theirs.invitations.add,
        theirs.invitations.list,
        lambda: own.tenants.get("theirs"),
        lambda: own.tenants.change("theirs", {"registration": "open"}),
        lambda: theirs.tenants.change("theirs", {"registration": "open"}),
        lambda: Agents(service.tenant("theirs"), ours).change("bot-a", owner="eve"),
    ):
        with pytest.raises((NotFound, NotAllowed)):
            work()
    assert service.tenant("theirs").store.keys.all() == [key]


def test_a_revoked_key_cannot_be_rotated_back_to_life(
    service: Service, accounts: AccountService, operator: Caller
) -> None:
    made = act(service, operator).keys.add("ci")
    viewer = accounts.authenticate(str(made.secret))
    act(service, operator).keys.revoke(made.key.id)
    with pytest.raises(Conflict, match="is revoked or expired"):
        act(service, viewer).keys.rotate(made.key.id)
    with pytest.raises(NotSignedIn):
        accounts.sign_in(str(made.secret))


def test_an_agent_is_not_taken_from_its_owner_by_a_key_or_an_invitation(
    service: Service, operator: Caller, store: Store
) -> None:
    tally = act(service, operator)
    tally.keys.add("ci", "agent", owner="bob", agent="bobs-bot")
    invited = tally.invitations.add()
    with pytest.raises(Conflict):
        tally.keys.add("ci", "agent", owner="eve", agent="bobs-bot")
    # The second one looks like it, and would be taken for it.
    for handle in ("bobs-bot", "b0bs-bot"):
        with pytest.raises(InvalidInput):
            act(service, EVE).invitations.accept(str(invited.code), "eve", handle)
    assert store.agents.get("bobs-bot").owner == "bob"
    assert [each.handle for each in store.agents.all()] == ["bobs-bot"]


def test_nobody_registers_as_an_owner_who_is_known(service: Service, operator: Caller) -> None:
    act(service, operator).tenants.change("default", {"registration": "open"})
    make_key(service, "viewer", owner="alice")
    for owner in ("alice", "operator"):
        with pytest.raises(Conflict, match="there is an owner"):
            act(service, EVE).accounts.register("eves-bot", owner)


def test_an_owner_of_another_tenant_is_not_known_here(
    service: Service, accounts: AccountService, operator: Caller
) -> None:
    tenants = act(service, operator).tenants
    tenants.change("default", {"registration": "open"})
    tenants.add("theirs")
    make_key(service, "viewer", owner="alice")
    text = make_key(service, "viewer", "theirs", owner="alice")
    caller = accounts.authenticate(text, "192.0.2.7")
    with pytest.raises(Conflict, match="there is an owner 'alice' already"):
        act(service, caller, "default").accounts.register("alices-bot", "alice")


@pytest.mark.parametrize("role", [each for each in KEY_ROLES if each != "admin"])
def test_nobody_makes_oneself_more_than_one_is(
    service: Service, accounts: AccountService, operator: Caller, role: Role
) -> None:
    agent = "bobs-bot" if role == "agent" else None
    caller = accounts.authenticate(make_key(service, role, owner="bob", agent=agent))
    wanted: Any
    for wanted in ("admin", "organiser"):
        with pytest.raises(NotAllowed):
            act(service, caller).keys.add("ci", wanted)
        with pytest.raises(NotAllowed):
            act(service, caller).invitations.add(wanted)
    rotated = act(service, caller).keys.rotate(caller.key_id or "")
    assert accounts.authenticate(str(rotated.secret)).role == role


def test_an_invitation_is_no_key_and_a_key_is_no_session(
    service: Service, accounts: AccountService, operator: Caller
) -> None:
    code = str(act(service, operator).invitations.add().code)
    key = make_key(service, "viewer")
    token = accounts.sign_in(key).token or ""
    accounts.resume(token)
    for text in (code, token):
        with pytest.raises(NotSignedIn, match="this is not a key"):
            accounts.authenticate(text)
    for text in (code, key):
        with pytest.raises(NotSignedIn):
            accounts.resume(text)


def test_an_agent_keeps_no_reporter_from_telling_of_its_losses(store: Store) -> None:
    """It cannot use up the idempotency key that a report about it is going to have."""

    def report(succeeded: bool) -> str:
        metrics = Metrics(succeeded=succeeded)
        return store.attempts.report("sums", "eve", Payload(), metrics, at=2.0, key="nightly-17").id

    store.challenges.publish(a_challenge(), b"files", at=0.0)
    store.attempts.enter("sums", "eve", at=1.0, seed=1, key="nightly-17")
    assert report(succeeded=False) == report(succeeded=False)
    with pytest.raises(Conflict, match="was used before"):
        report(succeeded=True)
