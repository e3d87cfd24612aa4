"""Invitations and registration: every use and every quota is counted once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.store.account_samples import add_invitation, add_key, an_agent_key

from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, TallymarkError, TooMany
from tallymark.store import Store
from tallymark.store.keys import make_secret

DAY = 86_400.0


def register(store: Store, owner: str, agent: str, **fields: Any) -> None:
    given: dict[str, Any] = {"address": "192.0.2.7", "known_owner": False, "at": 20.0, **fields}
    store.invitations.register(an_agent_key(store, owner, agent), make_secret(), **given)


def race(work: Callable[[int], None], count: int = 4) -> list[str]:
    """What each came to, sorted."""

    def run(number: int) -> str:
        try:
            work(number)
        except TallymarkError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(count) as pool:
        return sorted(pool.map(run, range(count)))


def test_who_accepts_gets_a_key_and_an_agent(store: Store) -> None:
    invitation = add_invitation(store)
    text = make_secret()
    store.invitations.accept(invitation, an_agent_key(store, "bob", "bobs-bot"), text, at=20.0)
    found = store.keys.find(text)
    assert found is not None
    assert (found.owner, found.agent) == ("bob", "bobs-bot")
    assert store.agents.get("bobs-bot").owner == "bob"
    assert store.invitations.all()[0].uses_left == 0
    accepted = store.audit_log.entries(event="invitation accepted")[0]
    assert accepted.agent == "bobs-bot"


def test_who_accepts_again_with_the_same_key_takes_no_other_use(store: Store) -> None:
    invitation = add_invitation(store, uses_left=2)
    text = make_secret()
    made, again = (
        store.invitations.accept(invitation, an_agent_key(store, "bob", "bot"), text, at=20.0)
        for _ in range(2)
    )
    assert again == made
    assert store.invitations.all()[0].uses_left == 1
    for owner, agent in (("bob", "other"), ("carol", "bot")):
        with pytest.raises(Conflict, match="this key is another's"):
            store.invitations.accept(invitation, an_agent_key(store, owner, agent), text, at=20.0)


def test_of_two_who_accept_an_invitation_for_one_the_first_does(store: Store) -> None:
    invitation = add_invitation(store)

    def accept(number: int) -> None:
        key = an_agent_key(store, f"owner-{number}", f"bot-{number}")
        store.invitations.accept(invitation, key, make_secret(), at=20.0)

    assert race(accept) == ["Conflict", "Conflict", "Conflict", "done"]
    assert len(store.agents.all()) == 1


def test_servers_share_the_uses(store: Store, make_store: Any) -> None:
    invitation = add_invitation(store, uses_left=2)
    servers = [store, make_store(like=store)]

    def accept(number: int) -> None:
        server = servers[number % 2]
        key = an_agent_key(server, f"owner-{number}", f"bot-{number}")
        server.invitations.accept(invitation, key, make_secret(), at=20.0)

    assert race(accept) == ["Conflict", "Conflict", "done", "done"]


def test_what_is_refused_takes_no_use(store: Store) -> None:
    invitation = add_invitation(store)
    add_key(store, owner="carol", role="agent", agent="taken")
    for owner, agent in (("bob", "taken"), ("carol", "free-bot"), ("bob", "No Handle")):
        key = an_agent_key(store, owner, agent)
        with pytest.raises(InvalidInput):
            store.invitations.accept(invitation, key, make_secret(), at=20.0)
    assert store.invitations.all()[0].uses_left == 1


def test_an_invitation_is_over_in_time_or_when_revoked(store: Store) -> None:
    key = an_agent_key(store, "bob", "bobs-bot")
    invitation = add_invitation(store)
    with pytest.raises(NotAllowed, match="the invitation is over"):
        store.invitations.accept(invitation, key, make_secret(), at=1000.0)
    store.invitations.revoke(invitation.id, at=20.0)
    with pytest.raises(NotAllowed, match="the invitation is over"):
        store.invitations.accept(invitation, key, make_secret(), at=20.0)


def test_an_invitation_of_another_tenant_is_not_there(store: Store, make_store: Any) -> None:
    invitation = add_invitation(store)
    with pytest.raises(NotFound, match="there is no invitation"):
        make_store().invitations.revoke(invitation.id, at=20.0)


def test_a_closed_tenant_lets_nobody_in(make_store: Any) -> None:
    store: Store = make_store(registration="closed")
    key = an_agent_key(store, "bob", "bobs-bot")
    with pytest.raises(NotAllowed, match="registration is closed"):
        store.invitations.accept(add_invitation(store), key, make_secret(), at=20.0)
    with pytest.raises(NotAllowed, match="without an invitation"):
        register(store, "bob", "bobs-bot")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"uses_left": 0}, "at least one use"),
        ({"expires_at": 10.0}, "would have expired"),
        ({"owner": "No"}, "cannot be an owner"),
    ],
)
def test_an_invitation_that_is_none_is_refused(
    store: Store, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        add_invitation(store, **fields)


def test_anybody_may_register_where_it_is_open(make_store: Any) -> None:
    store: Store = make_store(registration="open")
    register(store, "bob", "bobs-bot")
    assert store.agents.get("bobs-bot").owner == "bob"


def test_an_owner_who_is_known_must_be_proven(make_store: Any) -> None:
    store: Store = make_store(registration="open")
    register(store, "bob", "bobs-bot")
    with pytest.raises(Conflict, match="there is an owner 'bob' already"):
        register(store, "bob", "bobs-other")
    register(store, "bob", "bobs-other", known_owner=True)
    assert [each.handle for each in store.agents.all(owner="bob")] == ["bobs-bot", "bobs-other"]


def test_an_address_has_a_quota_a_day_however_many_come_together(make_store: Any) -> None:
    store: Store = make_store(registration="open", registrations_per_address=2)
    outcome = race(lambda n: register(store, f"owner-{n}", f"bot-{n}"))
    assert outcome == ["TooMany", "TooMany", "done", "done"]
    with pytest.raises(TooMany) as refused:
        register(store, "late", "late-bot", at=20.0 + DAY - 5.0)
    assert refused.value.retry_after == 5.0
    register(store, "other", "other-bot", address="192.0.2.8")
    register(store, "late", "late-bot", at=20.0 + DAY)


def test_an_owner_has_a_quota_however_many_come_together(make_store: Any) -> None:
    store: Store = make_store(
        registration="open", agents_per_owner=2, registrations_per_address=100
    )
    outcome = race(lambda n: register(store, "bob", f"bot-{n}", known_owner=True))
    assert outcome == ["Conflict", "Conflict", "done", "done"]
    assert len(store.agents.all(owner="bob")) == 2


def test_of_two_who_want_the_same_handle_one_gets_it(make_store: Any) -> None:
    store: Store = make_store(registration="open")
    outcome = race(lambda n: register(store, f"owner-{n}", "the-bot"))
    assert outcome == ["Conflict", "Conflict", "Conflict", "done"]


def test_an_agent_that_competes_already_cannot_be_claimed_by_strangers(make_store: Any) -> None:
    store: Store = make_store(registration="open")
    add_key(store, owner="bob", role="agent", agent="bobs-bot")
    store.agents.give("bobs-bot", None, at=15.0)
    with pytest.raises(Conflict, match="there is an agent 'bobs-bot' already"):
        register(store, "eve", "bobs-bot")
