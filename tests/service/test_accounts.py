"""`AccountService`: who is let in, who may make whom, and how quickly a key is let go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn
from tallymark.service import App
from tallymark.service.accounts import MAY_MAKE, SESSION_S, TTL, AccountService
from tallymark.service.callers import KEY_ROLES, Caller
from tallymark.store import open_store
from tallymark.store.actors import act_as

ANYBODY = Caller("default", "anonymous", "anonymous", address="192.0.2.7")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def accounts(tmp_path: Path, clock: Clock) -> Iterator[AccountService]:
    """Of the tenant `default`, on a database with an admin."""
    with open_store(str(tmp_path / "tally.db")) as store:
        yield AccountService(store, clock=clock)


@pytest.fixture
def admin(accounts: AccountService) -> Caller:
    text = accounts.ensure_admin_key()
    assert text is not None
    return accounts.authenticate(text, "192.0.2.1")


def caller_as(accounts: AccountService, admin: Caller, role: str, **fields: Any) -> Caller:
    fields |= {"agent": "bobs-bot"} if role == "agent" else {}
    return accounts.authenticate(accounts.create_key(admin, role=role, **fields).text)


# Who asks


def test_a_key_says_who_asks(accounts: AccountService, admin: Caller) -> None:
    made = accounts.create_key(admin, role="agent", owner="bob", agent="bobs-bot")
    caller = accounts.authenticate(made.text, "192.0.2.7")
    assert caller == Caller(
        "default", "agent", "bobs-bot", "bob", "bobs-bot", made.key.id, "192.0.2.7"
    )
    assert (caller.actor.name, caller.actor.address) == ("bobs-bot", "192.0.2.7")


def test_only_an_agent_is_called_as_an_agent_could_be(
    accounts: AccountService, admin: Caller
) -> None:
    assert admin.name == "admin operator"
    assert caller_as(accounts, admin, "organiser", owner="alice").name == "organiser alice"


@pytest.mark.parametrize(
    "text", ["", "tly_", "tly_unknown", "Bearer x", "tly_ä", "tly_" + "x" * 600]
)
def test_what_is_no_key_lets_nobody_in(accounts: AccountService, admin: Caller, text: str) -> None:
    assert admin.role == "admin"
    with pytest.raises(NotSignedIn):
        accounts.authenticate(text)


def test_nobody_is_let_in_where_nothing_is_stored(accounts: AccountService) -> None:
    with pytest.raises(NotSignedIn, match="the key is not known"):
        accounts.authenticate("tly_" + "x" * 43)


def test_an_expired_key_lets_nobody_in(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = accounts.create_key(admin, role="viewer", expires_at=clock.now + 10.0)
    accounts.authenticate(made.text)
    clock.now += 9.5
    accounts.authenticate(made.text)
    clock.now += 0.5
    with pytest.raises(NotSignedIn, match="the key has expired"):
        accounts.authenticate(made.text)


def test_a_revoked_key_is_refused_at_once_by_the_server_that_revoked_it(
    accounts: AccountService, admin: Caller
) -> None:
    made = accounts.create_key(admin, role="viewer")
    accounts.authenticate(made.text)
    accounts.revoke_key(admin, made.key.id)
    with pytest.raises(NotSignedIn, match="the key was revoked"):
        accounts.authenticate(made.text)


def test_a_revoked_key_is_refused_by_another_server_within_seconds(
    accounts: AccountService, admin: Caller, clock: Clock, tmp_path: Path
) -> None:
    made = accounts.create_key(admin, role="viewer")
    with open_store(str(tmp_path / "tally.db")) as store:
        other = AccountService(store, clock=clock)
        other.authenticate(made.text)
        accounts.revoke_key(admin, made.key.id)
        clock.now += TTL
        with pytest.raises(NotSignedIn, match="the key was revoked"):
            other.authenticate(made.text)


def test_a_clock_that_goes_back_makes_no_key_last_longer(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = accounts.create_key(admin, role="viewer")
    accounts.authenticate(made.text)
    clock.now -= 3600.0
    assert accounts.recall(made.text) is None


def test_a_key_that_was_just_seen_is_remembered_with_the_address_of_now(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = accounts.create_key(admin, role="viewer")
    assert accounts.recall(made.text) is None
    accounts.authenticate(made.text, "192.0.2.1")
    seen = accounts.recall(made.text, "192.0.2.2")
    assert seen is not None
    assert seen.address == "192.0.2.2"
    clock.now += TTL
    assert accounts.recall(made.text) is None


def test_tenants_share_what_was_seen(tmp_path: Path) -> None:
    app = App(str(tmp_path / "tally.db"))
    text = app.accounts.ensure_admin_key()
    assert text is not None
    operator = app.accounts.authenticate(text)
    made = app.accounts.create_tenant(operator, "acme")
    theirs = app.for_tenant("acme")
    boss = app.accounts.authenticate(made.text)
    viewer = theirs.accounts.create_key(boss, role="viewer")
    app.accounts.authenticate(viewer.text)
    theirs.accounts.revoke_key(boss, viewer.key.id)
    with pytest.raises(NotSignedIn):
        app.accounts.authenticate(viewer.text)
    theirs.close()
    assert app.accounts.authenticate(text).tenant == "default"
    app.close()


# Sessions


def test_who_signs_in_is_known_by_the_session(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = accounts.create_key(admin, role="organiser", owner="alice")
    signed = accounts.sign_in(made.text, "192.0.2.7")
    assert signed.token is not None
    again = accounts.resume(signed.token, "192.0.2.8")
    assert (again.caller.owner, again.caller.address) == ("alice", "192.0.2.8")
    assert (again.csrf, again.expires_at) == (signed.csrf, clock.now + SESSION_S)
    accounts.sign_out(signed.token)
    with pytest.raises(NotSignedIn, match="the session is over"):
        accounts.resume(signed.token)


def test_a_session_ends_with_its_key(accounts: AccountService, admin: Caller, clock: Clock) -> None:
    made = accounts.create_key(admin, role="viewer", expires_at=clock.now + 50.0)
    first, second = accounts.sign_in(made.text), accounts.sign_in(made.text)
    assert first.expires_at == clock.now + 50.0
    assert first.token is not None
    assert second.token is not None
    accounts.revoke_key(admin, made.key.id)
    for token in (first.token, second.token):
        with pytest.raises(NotSignedIn):
            accounts.resume(token)


def test_a_session_is_over_in_time(accounts: AccountService, admin: Caller, clock: Clock) -> None:
    signed = accounts.sign_in(accounts.create_key(admin, role="viewer").text)
    assert signed.token is not None
    clock.now += SESSION_S
    with pytest.raises(NotSignedIn):
        accounts.resume(signed.token)


def test_signing_out_everywhere_ends_all_sessions_of_the_owner(
    accounts: AccountService, admin: Caller
) -> None:
    keys = [accounts.create_key(admin, role="viewer", owner="alice") for _ in range(2)]
    signed = [accounts.sign_in(each.text) for each in keys]
    assert accounts.sign_out_everywhere(signed[0].caller) == 2
    for each in signed:
        with pytest.raises(NotSignedIn):
            accounts.resume(each.token or "")
    assert accounts.authenticate(keys[1].text).owner == "alice"


def test_what_is_over_is_found_among_keys_and_sessions(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = [accounts.create_key(admin, role="viewer", owner=each) for each in ("alice", "bob")]
    tokens = [accounts.sign_in(each.text).token or "" for each in made]
    tokens.append(accounts.sign_in(made[1].text).token or "")
    known = [accounts.authenticate(each.text).credential or "" for each in made]
    known += [accounts.resume(each).caller.credential or "" for each in tokens]
    assert accounts.find_ended(known) == set()
    accounts.revoke_key(admin, made[0].key.id)
    accounts.sign_out(tokens[1])
    assert accounts.find_ended([*known, "x"]) == {known[0], known[2], known[3], "x"}
    clock.now += SESSION_S
    assert accounts.find_ended(known) == {known[0], *known[2:]}


# The first key


def test_the_first_start_makes_a_key_and_no_other_does(accounts: AccountService) -> None:
    text = accounts.ensure_admin_key()
    assert text is not None
    assert accounts.authenticate(text).role == "admin"
    assert accounts.ensure_admin_key() is None


def test_the_first_key_can_be_given(accounts: AccountService) -> None:
    given = "tly_0123456789abcdefghijklmnopqrstuv"
    assert accounts.ensure_admin_key(given) is None
    assert accounts.authenticate(given).role == "admin"
    assert accounts.ensure_admin_key(given) is None
    assert accounts.ensure_admin_key() is None


@pytest.mark.parametrize("given", ["k" * 40, "tly_" + "k" * 31, "tly_" + "k k" * 20, "tly_ä" * 20])
def test_a_first_key_that_cannot_be_one_is_refused_unquoted(
    accounts: AccountService, given: str
) -> None:
    with pytest.raises(InvalidInput, match="TALLY_ADMIN_KEY cannot be used") as refused:
        accounts.ensure_admin_key(given)
    assert given not in str(refused.value)


@pytest.mark.parametrize(
    "words", ["a" * 32, "password" * 5, "password1password2password3password4", "0123456789" * 4]
)
def test_a_first_key_that_is_easy_to_guess_is_refused(accounts: AccountService, words: str) -> None:
    with pytest.raises(InvalidInput, match="TALLY_ADMIN_KEY is easy to guess"):
        accounts.ensure_admin_key(f"tly_{words}")


@pytest.mark.parametrize("letters", ["0123456789", "0123456789abcdef"])
def test_random_keys_are_taken(accounts: AccountService, letters: str) -> None:
    dice = random.Random(7)
    for length in (32, 64, 400):
        accounts.ensure_admin_key("tly_" + "".join(dice.choices(letters, k=length)))


def test_a_given_key_that_was_revoked_stays_so(accounts: AccountService, admin: Caller) -> None:
    given = "tly_0123456789abcdefghijklmnopqrstuv"
    accounts.ensure_admin_key(given)
    accounts.revoke_key(admin, accounts.authenticate(given).key_id or "")
    with pytest.raises(InvalidInput, match="is revoked"):
        accounts.ensure_admin_key(given)


# Who may make whom


@pytest.mark.parametrize("role", KEY_ROLES)
@pytest.mark.parametrize("wanted", KEY_ROLES)
def test_who_may_make_which_key(
    accounts: AccountService, admin: Caller, role: str, wanted: str
) -> None:
    caller = caller_as(accounts, admin, role)
    agent = "new-bot" if wanted == "agent" else None
    if wanted in MAY_MAKE.get(caller.role, ()):
        assert accounts.create_key(caller, role=wanted, agent=agent).key.role == wanted
    else:
        with pytest.raises(NotAllowed, match=f"a key for {role} cannot manage keys for {wanted}"):
            accounts.create_key(caller, role=wanted, agent=agent)


def test_organisers_make_no_organisers() -> None:
    assert MAY_MAKE == {"admin": KEY_ROLES, "organiser": ("reporter", "agent", "viewer")}


@pytest.mark.parametrize("role", ["reporter", "agent", "viewer"])
def test_everybody_manages_the_own_key_and_no_other(
    accounts: AccountService, admin: Caller, role: str
) -> None:
    caller = caller_as(accounts, admin, role)
    assert [each.id for each in accounts.list_keys(caller)] == [caller.key_id]
    with pytest.raises(NotFound, match="there is no key"):
        accounts.revoke_key(caller, admin.key_id or "")
    new = accounts.rotate_key(caller, caller.key_id or "")
    assert accounts.authenticate(new.text).role == role


def test_an_organiser_cannot_touch_an_admins_key(accounts: AccountService, admin: Caller) -> None:
    organiser = caller_as(accounts, admin, "organiser")
    for act in (accounts.revoke_key, accounts.rotate_key, accounts.get_key):
        with pytest.raises(NotFound):
            act(organiser, admin.key_id or "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "king"}, "there is no role 'king'"),
        ({"role": "agnt"}, "did you mean 'agent'"),
        ({"role": "agent"}, "the key of an agent names the agent"),
        ({"role": "viewer", "agent": "bobs-bot"}, "the key of an agent names the agent"),
        ({"role": "agent", "agent": "No Handle"}, "is no handle"),
        ({"role": "viewer", "owner": "Not An Owner"}, "cannot be an owner"),
        ({"role": "viewer", "expires_at": 1.0}, "expired already"),
    ],
)
def test_a_key_that_cannot_be_is_refused(
    accounts: AccountService, admin: Caller, fields: dict[str, Any], message: str
) -> None:
    before = accounts.list_keys(admin)
    with pytest.raises(InvalidInput, match=message):
        accounts.create_key(admin, **fields)
    assert accounts.list_keys(admin) == before


# Rotation


def test_a_rotated_key_overlaps_with_the_new_one(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    old = accounts.create_key(admin, role="reporter", owner="alice", name="ci")
    new = accounts.rotate_key(admin, old.key.id, overlap_s=60.0)
    assert (new.key.owner, new.key.name, new.key.role) == ("alice", "ci", "reporter")
    clock.now += 59.0
    accounts.authenticate(old.text)
    clock.now += 1.0
    with pytest.raises(NotSignedIn, match="the key has expired"):
        accounts.authenticate(old.text)
    assert accounts.authenticate(new.text).key_id == new.key.id
    with pytest.raises(Conflict):
        accounts.rotate_key(admin, old.key.id)


def test_rotating_the_own_key_makes_it_last_no_longer(
    accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    until = clock.now + 100.0
    made = accounts.create_key(admin, role="viewer", expires_at=until)
    viewer = accounts.authenticate(made.text)
    new = accounts.rotate_key(viewer, made.key.id)
    assert new.key.expires_at == until
    again = accounts.authenticate(new.text)
    with pytest.raises(NotAllowed):
        accounts.rotate_key(again, new.key.id, expires_at=until + 1.0)


@pytest.mark.parametrize("overlap", [-1.0, 31 * 86_400.0, float("nan")])
def test_an_overlap_that_is_none_is_refused(
    accounts: AccountService, admin: Caller, overlap: float
) -> None:
    made = accounts.create_key(admin, role="viewer")
    with pytest.raises(InvalidInput, match="an overlap is"):
        accounts.rotate_key(admin, made.key.id, overlap_s=overlap)


# Tenants


def test_the_operator_makes_tenants_and_sees_nothing_in_them(
    accounts: AccountService, admin: Caller
) -> None:
    made = accounts.create_tenant(admin, "acme", {"registration": "open"})
    theirs = accounts.for_tenant("acme")
    boss = accounts.authenticate(made.text)
    assert (boss.tenant, boss.role) == ("acme", "admin")
    assert [each.name for each in accounts.list_tenants(admin)] == ["acme", "default"]
    assert theirs.list_keys(admin) == []
    for act in (
        lambda: theirs.create_key(admin, role="viewer"),
        lambda: theirs.invite(admin),
        lambda: theirs.list_invitations(admin),
    ):
        with pytest.raises(NotAllowed):
            act()
    with pytest.raises(NotFound):
        theirs.revoke_key(admin, boss.key_id or "")


def test_an_admin_of_another_tenant_is_no_operator(accounts: AccountService, admin: Caller) -> None:
    boss = accounts.authenticate(accounts.create_tenant(admin, "acme").text)
    theirs = accounts.for_tenant("acme")
    assert theirs.change_settings(boss, registration="open").registration == "open"
    for act in (
        lambda: accounts.create_tenant(boss, "more"),
        lambda: accounts.list_tenants(boss),
        lambda: accounts.change_settings(boss, registration="open"),
        lambda: theirs.change_settings(boss, limits={"read": 10_000}),
    ):
        with pytest.raises(NotAllowed, match="tenants are the operator's"):
            act()
    assert theirs.change_settings(admin, limits={"read": 7}).limits == {"read": 7}
    assert accounts.find_settings("acme").limits == {"read": 7}


# Invitations, registration, agents


def test_an_invitation_becomes_a_key(accounts: AccountService, admin: Caller) -> None:
    organiser = caller_as(accounts, admin, "organiser", owner="alice")
    invited = accounts.invite(organiser, uses=2)
    assert invited.invitation.made_by == "organiser alice"
    made = accounts.accept_invitation(invited.text, owner="bob", agent="bobs-bot")
    assert accounts.authenticate(made.text).agent == "bobs-bot"
    (left,) = accounts.list_invitations(organiser)
    assert left.uses_left == 1
    accounts.revoke_invitation(organiser, left.id)
    with pytest.raises(NotAllowed, match="is over"):
        accounts.accept_invitation(invited.text, owner="eve", agent="eves-bot")


def test_an_invitation_leads_to_the_tenant_that_made_it(
    accounts: AccountService, admin: Caller
) -> None:
    boss = accounts.authenticate(accounts.create_tenant(admin, "acme").text)
    invited = accounts.for_tenant("acme").invite(boss, role="viewer", owner="bob")
    made = accounts.accept_invitation(invited.text)
    assert (made.key.tenant, made.key.owner, made.key.role) == ("acme", "bob", "viewer")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"owner": "bob"}, "the invitation is to a key for: agent"),
        ({"agent": "bobs-bot"}, "the invitation needs an owner"),
        ({"owner": "operator", "agent": "bobs-bot"}, "there is an owner 'operator' already"),
    ],
)
def test_what_is_accepted_wrongly_is_refused(
    accounts: AccountService, admin: Caller, asked: dict[str, str], message: str
) -> None:
    invited = accounts.invite(admin)
    with pytest.raises(InvalidInput, match=message):
        accounts.accept_invitation(invited.text, **asked)
    assert accounts.list_invitations(admin)[0].uses_left == 1


def test_an_unknown_invitation_is_refused(accounts: AccountService, admin: Caller) -> None:
    assert admin.role == "admin"
    with pytest.raises(NotFound, match="this invitation is not known"):
        accounts.accept_invitation("tli_nothing", owner="bob", agent="bobs-bot")


@pytest.mark.parametrize("role", ["reporter", "agent", "viewer"])
def test_who_makes_no_keys_makes_no_invitations(
    accounts: AccountService, admin: Caller, role: str
) -> None:
    caller = caller_as(accounts, admin, role)
    for act in (
        lambda: accounts.invite(caller),
        lambda: accounts.list_invitations(caller),
        lambda: accounts.give_agent(caller, "bobs-bot", None),
    ):
        with pytest.raises(NotAllowed):
            act()


def test_open_registration_makes_an_owner_who_may_come_again(
    accounts: AccountService, admin: Caller
) -> None:
    with pytest.raises(NotAllowed, match="without an invitation"):
        accounts.register(ANYBODY, owner="bob", agent="bobs-bot")
    accounts.change_settings(admin, registration="open")
    bob = accounts.authenticate(accounts.register(ANYBODY, owner="bob", agent="bobs-bot").text)
    with pytest.raises(Conflict):
        accounts.register(ANYBODY, owner="bob", agent="bobs-other")
    assert accounts.register(bob, agent="bobs-other").key.owner == "bob"
    with pytest.raises(NotAllowed, match="the key is that of 'bob'"):
        accounts.register(bob, owner="eve", agent="eves-bot")


def test_the_log_says_who_did_it_and_from_where(accounts: AccountService, admin: Caller) -> None:
    with act_as(admin.actor):
        made = accounts.create_key(admin, role="viewer")
    entry = accounts._store.audit_log.entries(limit=1)[0]
    assert (entry.event, entry.actor, entry.address) == (
        "key created",
        "admin operator",
        "192.0.2.1",
    )
    assert made.text not in repr(accounts._store.audit_log.entries())
