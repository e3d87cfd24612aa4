"""Ways to act as somebody else, or where one has no business."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.store.contest_samples import a_challenge, quick_store

from tallymark.challenges.attempt import Metrics, Payload
from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn
from tallymark.service.accounts import AccountService
from tallymark.service.callers import KEY_ROLES, Caller
from tallymark.store import Store


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with quick_store(empty_url) as opened:
        yield opened


@pytest.fixture
def accounts(store: Store) -> AccountService:
    return AccountService(store, clock=lambda: 1000.0)


@pytest.fixture
def operator(accounts: AccountService) -> Caller:
    return accounts.authenticate(accounts.ensure_admin_key() or "")


def test_a_key_of_one_tenant_manages_nothing_of_another(
    accounts: AccountService, operator: Caller
) -> None:
    ours = accounts.authenticate(accounts.create_tenant(operator, "ours").text)
    accounts.create_tenant(operator, "theirs")
    theirs = accounts.for_tenant("theirs")
    key = theirs._store.keys.all()[0]
    assert theirs.list_keys(ours) == []
    for act in (
        lambda: theirs.get_key(ours, key.id),
        lambda: theirs.revoke_key(ours, key.id),
        lambda: theirs.rotate_key(ours, key.id),
        lambda: accounts.for_tenant("ours").revoke_key(ours, key.id),
        lambda: theirs.create_key(ours, role="viewer"),
        lambda: theirs.invite(ours),
        lambda: theirs.list_invitations(ours),
        lambda: theirs.change_settings(ours, registration="open"),
        lambda: theirs.give_agent(ours, "bot-a", "eve"),
    ):
        with pytest.raises((NotFound, NotAllowed)):
            act()
    assert theirs._store.keys.all() == [key]


def test_a_revoked_key_cannot_be_rotated_back_to_life(
    accounts: AccountService, operator: Caller
) -> None:
    made = accounts.create_key(operator, role="viewer")
    viewer = accounts.authenticate(made.text)
    accounts.revoke_key(operator, made.key.id)
    with pytest.raises(Conflict, match="is revoked or expired"):
        accounts.rotate_key(viewer, made.key.id)
    with pytest.raises(NotSignedIn):
        accounts.sign_in(made.text)


def test_an_agent_is_not_taken_from_its_owner_by_a_key_or_an_invitation(
    accounts: AccountService, operator: Caller, store: Store
) -> None:
    accounts.create_key(operator, role="agent", owner="bob", agent="bobs-bot")
    invited = accounts.invite(operator)
    with pytest.raises(Conflict):
        accounts.create_key(operator, role="agent", owner="eve", agent="bobs-bot")
    # The second one looks like it, and would be taken for it.
    for handle in ("bobs-bot", "b0bs-bot"):
        with pytest.raises(InvalidInput):
            accounts.accept_invitation(invited.text, owner="eve", agent=handle)
    assert store.agents.get("bobs-bot").owner == "bob"
    assert [each.handle for each in store.agents.all()] == ["bobs-bot"]


def test_nobody_registers_as_an_owner_who_is_known(
    accounts: AccountService, operator: Caller
) -> None:
    accounts.change_settings(operator, registration="open")
    accounts.create_key(operator, role="viewer", owner="alice")
    eve = Caller("default", "anonymous", "anonymous", address="192.0.2.7")
    for owner in ("alice", "operator"):
        with pytest.raises(Conflict, match="there is an owner"):
            accounts.register(eve, owner=owner, agent="eves-bot")


def test_an_owner_of_another_tenant_is_not_known_here(
    accounts: AccountService, operator: Caller
) -> None:
    accounts.change_settings(operator, registration="open")
    boss = accounts.authenticate(accounts.create_tenant(operator, "theirs").text)
    accounts.create_key(operator, role="viewer", owner="alice")
    alice = accounts.for_tenant("theirs").create_key(boss, role="viewer", owner="alice")
    caller = accounts.authenticate(alice.text, "192.0.2.7")
    with pytest.raises(Conflict, match="there is an owner 'alice' already"):
        accounts.register(caller, owner="alice", agent="alices-bot")


@pytest.mark.parametrize("role", [each for each in KEY_ROLES if each != "admin"])
def test_nobody_makes_oneself_more_than_one_is(
    accounts: AccountService, operator: Caller, role: str
) -> None:
    agent = "bobs-bot" if role == "agent" else None
    made = accounts.create_key(operator, role=role, owner="bob", agent=agent)
    caller = accounts.authenticate(made.text)
    for wanted in ("admin", "organiser"):
        with pytest.raises(NotAllowed):
            accounts.create_key(caller, role=wanted)
        with pytest.raises(NotAllowed):
            accounts.invite(caller, role=wanted)
    rotated = accounts.rotate_key(caller, made.key.id)
    assert accounts.authenticate(rotated.text).role == role


def test_an_invitation_is_no_key_and_a_key_is_no_session(
    accounts: AccountService, operator: Caller
) -> None:
    invited = accounts.invite(operator)
    made = accounts.create_key(operator, role="viewer")
    signed = accounts.sign_in(made.text)
    accounts.resume(signed.token or "")
    for text in (invited.text, signed.token or ""):
        with pytest.raises(NotSignedIn, match="this is no key"):
            accounts.authenticate(text)
    for text in (invited.text, made.text):
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
