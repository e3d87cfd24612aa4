"""`AccountService`: who is let in, who may make whom, and how quickly a key is let go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.account_samples import act, make_key

from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn
from tallymark.service import App
from tallymark.service.accounts import SESSION_S, TTL, AccountService
from tallymark.service.agents import Agents
from tallymark.service.callers import KEY_ROLES, Caller
from tallymark.service.keys import MAY_MAKE
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.store import open_store
from tallymark.store.contests.audit_log import act_as

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
def service(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    made = Service(ServiceSettings(db=str(tmp_path / "tally.db")), clock=clock)
    yield made
    made.app.close()


@pytest.fixture
def accounts(service: Service) -> AccountService:
    return service.accounts


@pytest.fixture
def admin(accounts: AccountService) -> Caller:
    text = accounts.ensure_admin_key()
    assert text is not None
    return accounts.authenticate(text, "192.0.2.1")


def caller_as(service: Service, role: str, **fields: Any) -> Caller:
    fields |= {"agent": "bobs-bot"} if role == "agent" else {}
    return service.accounts.authenticate(make_key(service, role, **fields))


# Who asks


def test_a_key_says_who_asks(service: Service, accounts: AccountService, admin: Caller) -> None:
    made = act(service, admin).keys.add("ci", role="agent", owner="bob", agent="bobs-bot")
    caller = accounts.authenticate(str(made.secret), "192.0.2.7")
    assert caller == Caller(
        "default", "agent", "bobs-bot", "bob", "bobs-bot", made.key.id, "192.0.2.7"
    )
    assert (caller.actor.name, caller.actor.address) == ("bobs-bot", "192.0.2.7")


def test_only_an_agent_is_called_as_an_agent_could_be(service: Service, admin: Caller) -> None:
    assert admin.name == "admin operator"
    assert caller_as(service, "organiser", owner="alice").name == "organiser alice"


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
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = act(service, admin).keys.add("ci", expires_in_s=10.0)
    accounts.authenticate(str(made.secret))
    clock.now += 9.5
    accounts.authenticate(str(made.secret))
    clock.now += 0.5
    with pytest.raises(NotSignedIn, match="the key has expired"):
        accounts.authenticate(str(made.secret))


def test_a_revoked_key_is_refused_at_once_by_the_server_that_revoked_it(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    made = act(service, admin).keys.add("ci")
    accounts.authenticate(str(made.secret))
    act(service, admin).keys.revoke(made.key.id)
    with pytest.raises(NotSignedIn, match="the key was revoked"):
        accounts.authenticate(str(made.secret))


def test_a_revoked_key_is_refused_by_another_server_within_seconds(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock, tmp_path: Path
) -> None:
    made = act(service, admin).keys.add("ci")
    with open_store(str(tmp_path / "tally.db")) as store:
        other = AccountService(store, clock=clock)
        other.authenticate(str(made.secret))
        act(service, admin).keys.revoke(made.key.id)
        clock.now += TTL
        with pytest.raises(NotSignedIn, match="the key was revoked"):
            other.authenticate(str(made.secret))


def test_a_clock_that_goes_back_makes_no_key_last_longer(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = act(service, admin).keys.add("ci")
    accounts.authenticate(str(made.secret))
    clock.now -= 3600.0
    assert accounts.recall(str(made.secret)) is None


def test_a_key_that_was_just_seen_is_remembered_with_the_address_of_now(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = act(service, admin).keys.add("ci")
    assert accounts.recall(str(made.secret)) is None
    accounts.authenticate(str(made.secret), "192.0.2.1")
    seen = accounts.recall(str(made.secret), "192.0.2.2")
    assert seen is not None
    assert seen.address == "192.0.2.2"
    clock.now += TTL
    assert accounts.recall(str(made.secret)) is None


def test_tenants_share_what_was_seen(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    made = act(service, admin).tenants.add("acme")
    boss = accounts.authenticate(str(made.secret))
    viewer = act(service, boss).keys.add("ci")
    accounts.authenticate(str(viewer.secret))
    act(service, boss).keys.revoke(viewer.key.id)
    with pytest.raises(NotSignedIn):
        accounts.authenticate(str(viewer.secret))


def test_databases_that_share_an_engine_share_what_was_seen(tmp_path: Path) -> None:
    app = App(str(tmp_path / "tally.db"))
    text = app.accounts.ensure_admin_key()
    assert text is not None
    theirs = app.for_tenant("acme")
    assert theirs.accounts is app.accounts
    theirs.close()
    assert app.accounts.authenticate(text).tenant == "default"
    app.close()


# Sessions


def test_who_signs_in_is_known_by_the_session(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = act(service, admin).keys.add("ci", role="organiser", owner="alice")
    signed = accounts.sign_in(str(made.secret), "192.0.2.7")
    assert signed.token is not None
    again = accounts.resume(signed.token, "192.0.2.8")
    assert (again.caller.owner, again.caller.address) == ("alice", "192.0.2.8")
    assert (again.csrf, again.expires_at) == (signed.csrf, clock.now + SESSION_S)
    accounts.sign_out(signed.token)
    with pytest.raises(NotSignedIn, match="the session is over"):
        accounts.resume(signed.token)


def test_a_session_ends_with_its_key(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = act(service, admin).keys.add("ci", expires_in_s=50.0)
    first, second = accounts.sign_in(str(made.secret)), accounts.sign_in(str(made.secret))
    assert first.expires_at == clock.now + 50.0
    assert first.token is not None
    assert second.token is not None
    act(service, admin).keys.revoke(made.key.id)
    for token in (first.token, second.token):
        with pytest.raises(NotSignedIn):
            accounts.resume(token)


def test_a_session_is_over_in_time(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    signed = accounts.sign_in(make_key(service, "viewer"))
    assert signed.token is not None
    clock.now += SESSION_S
    with pytest.raises(NotSignedIn):
        accounts.resume(signed.token)


def test_signing_out_everywhere_ends_all_sessions_of_the_owner(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    keys = [act(service, admin).keys.add("ci", owner="alice") for _ in range(2)]
    signed = [accounts.sign_in(str(each.secret)) for each in keys]
    assert accounts.sign_out_everywhere(signed[0].caller) == 2
    for each in signed:
        with pytest.raises(NotSignedIn):
            accounts.resume(each.token or "")
    assert accounts.authenticate(str(keys[1].secret)).owner == "alice"


def test_what_is_over_is_found_among_keys_and_sessions(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    made = [act(service, admin).keys.add("ci", owner=each) for each in ("alice", "bob")]
    tokens = [accounts.sign_in(str(each.secret)).token or "" for each in made]
    tokens.append(accounts.sign_in(str(made[1].secret)).token or "")
    known = [accounts.authenticate(str(each.secret)).credential or "" for each in made]
    known += [accounts.resume(each).caller.credential or "" for each in tokens]
    assert accounts.find_ended(known) == set()
    act(service, admin).keys.revoke(made[0].key.id)
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


def test_a_given_key_that_was_revoked_stays_so(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    given = "tly_0123456789abcdefghijklmnopqrstuv"
    accounts.ensure_admin_key(given)
    act(service, admin).keys.revoke(accounts.authenticate(given).key_id or "")
    with pytest.raises(InvalidInput, match="is revoked"):
        accounts.ensure_admin_key(given)


# Who may make whom


@pytest.mark.parametrize("role", KEY_ROLES)
@pytest.mark.parametrize("wanted", KEY_ROLES)
def test_who_may_make_which_key(
    service: Service, accounts: AccountService, admin: Caller, role: str, wanted: Any
) -> None:
    caller = caller_as(service, role)
    agent = "new-bot" if wanted == "agent" else None
    if wanted in MAY_MAKE.get(caller.role, ()):
        assert act(service, caller).keys.add("ci", role=wanted, agent=agent).key.role == wanted
    else:
        with pytest.raises(
            NotAllowed, match=f"a key for {role} cannot|a key of the role '{role}' may not"
        ):
            act(service, caller).keys.add("ci", role=wanted, agent=agent)


def test_organisers_make_no_organisers() -> None:
    assert MAY_MAKE == {"admin": KEY_ROLES, "organiser": ("reporter", "agent", "viewer")}


@pytest.mark.parametrize("role", ["reporter", "agent", "viewer"])
def test_everybody_manages_the_own_key_and_no_other(
    service: Service, accounts: AccountService, admin: Caller, role: str
) -> None:
    caller = caller_as(service, role)
    assert [each.id for each in act(service, caller).keys.list().items] == [caller.key_id]
    with pytest.raises(NotFound, match="there is no key"):
        act(service, caller).keys.revoke(admin.key_id or "")
    new = act(service, caller).keys.rotate(caller.key_id or "")
    assert accounts.authenticate(str(new.secret)).role == role


def test_an_organiser_cannot_touch_an_admins_key(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    organiser = caller_as(service, "organiser")
    keys = act(service, organiser).keys
    for work in (keys.revoke, keys.rotate):
        with pytest.raises(NotFound):
            work(admin.key_id or "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"role": "king"}, "there is no role 'king'"),
        ({"role": "agnt"}, "did you mean 'agent'"),
        ({"role": "agent"}, "the key of an agent names the agent"),
        ({"role": "viewer", "agent": "bobs-bot"}, "the key of an agent names the agent"),
        ({"role": "agent", "agent": "No Handle"}, "is no handle"),
        ({"role": "viewer", "owner": "Not An Owner"}, "cannot be an owner"),
        ({"role": "viewer", "expires_in_s": -1.0}, "expected float > 0"),
    ],
)
def test_a_key_that_cannot_be_is_refused(
    service: Service, accounts: AccountService, admin: Caller, fields: dict[str, Any], message: str
) -> None:
    before = act(service, admin).keys.list().items
    with pytest.raises(InvalidInput, match=message):
        act(service, admin).keys.add("ci", **fields)
    assert act(service, admin).keys.list().items == before


# Rotation


def test_a_rotated_key_overlaps_with_the_new_one(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    old = act(service, admin).keys.add("ci", role="reporter", owner="alice")
    new = act(service, admin).keys.rotate(old.key.id, overlap_s=60.0)
    assert (new.key.owner, new.key.name, new.key.role) == ("alice", "ci", "reporter")
    clock.now += 59.0
    accounts.authenticate(str(old.secret))
    clock.now += 1.0
    with pytest.raises(NotSignedIn, match="the key has expired"):
        accounts.authenticate(str(old.secret))
    assert accounts.authenticate(str(new.secret)).key_id == new.key.id
    with pytest.raises(Conflict):
        act(service, admin).keys.rotate(old.key.id)


def test_rotating_the_own_key_makes_it_last_no_longer(
    service: Service, accounts: AccountService, admin: Caller, clock: Clock
) -> None:
    until = clock.now + 100.0
    made = act(service, admin).keys.add("ci", expires_in_s=100.0)
    viewer = accounts.authenticate(str(made.secret))
    new = act(service, viewer).keys.rotate(made.key.id)
    assert new.key.expires_at == until
    again = accounts.authenticate(str(new.secret))
    with pytest.raises(NotAllowed):
        act(service, again).keys.rotate(new.key.id, expires_in_s=101.0)


@pytest.mark.parametrize("overlap", [-1.0, 31 * 86_400.0, float("nan")])
def test_an_overlap_that_is_none_is_refused(
    service: Service, admin: Caller, overlap: float
) -> None:
    made = act(service, admin).keys.add("ci")
    with pytest.raises(InvalidInput, match=r"an overlap is|not a finite number"):
        act(service, admin).keys.rotate(made.key.id, overlap_s=overlap)


# Tenants


def test_the_operator_makes_tenants_and_sees_nothing_in_them(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    made = act(service, admin).tenants.add("acme", {"registration": "open"})
    theirs = act(service, admin, "acme")
    boss = accounts.authenticate(str(made.secret))
    assert (boss.tenant, boss.role) == ("acme", "admin")
    assert [each.name for each in act(service, admin).tenants.list()] == ["acme", "default"]
    assert theirs.keys.list().items == []
    for work in (
        lambda: theirs.keys.add("ci"),
        theirs.invitations.add,
        theirs.invitations.list,
    ):
        with pytest.raises(NotAllowed):
            work()
    with pytest.raises(NotFound):
        theirs.keys.revoke(boss.key_id or "")


def test_an_admin_of_another_tenant_is_no_operator(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    made = act(service, admin).tenants.add("acme")
    tenants = act(service, accounts.authenticate(str(made.secret))).tenants
    opened = tenants.change("acme", {"registration": "open"})
    assert opened.settings.registration == tenants.get("acme").settings.registration == "open"
    for work in (
        lambda: tenants.add("more"),
        tenants.list,
        lambda: tenants.get("default"),
        lambda: tenants.change("default", {"registration": "open"}),
        lambda: tenants.change("acme", {"limits": {"read": 10_000}}),
    ):
        with pytest.raises(NotAllowed, match="tenants are the operator's"):
            work()
    accounts.find_settings("acme")
    act(service, admin).tenants.change("acme", {"limits": {"read": 7}})
    assert accounts.find_settings("acme").limits == {"read": 7}


# Invitations, registration, agents


def test_an_invitation_becomes_a_key(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    organiser = caller_as(service, "organiser", owner="alice")
    invited = act(service, organiser).invitations.add(uses=2)
    assert invited.invitation.made_by == "organiser alice"
    made = act(service, ANYBODY).invitations.accept(
        str(invited.code), owner="bob", agent="bobs-bot"
    )
    assert accounts.authenticate(str(made.secret)).agent == "bobs-bot"
    (left,) = act(service, organiser).invitations.list().items
    assert left.uses_left == 1
    act(service, organiser).invitations.revoke(left.id)
    with pytest.raises(NotAllowed, match="is over"):
        act(service, ANYBODY).invitations.accept(str(invited.code), owner="eve", agent="eves-bot")


def test_an_invitation_leads_to_the_tenant_that_made_it(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    boss = accounts.authenticate(str(act(service, admin).tenants.add("acme").secret))
    invited = act(service, boss).invitations.add("viewer", owner="bob")
    made = act(service, ANYBODY).invitations.accept(str(invited.code))
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
    service: Service, accounts: AccountService, admin: Caller, asked: dict[str, str], message: str
) -> None:
    invited = act(service, admin).invitations.add()
    with pytest.raises(InvalidInput, match=message):
        act(service, ANYBODY).invitations.accept(str(invited.code), **asked)
    assert act(service, admin).invitations.list().items[0].uses_left == 1


def test_an_unknown_invitation_is_refused(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    assert admin.role == "admin"
    with pytest.raises(NotFound, match="this invitation is not known"):
        act(service, ANYBODY).invitations.accept("tli_nothing", owner="bob", agent="bobs-bot")


@pytest.mark.parametrize("role", ["reporter", "agent", "viewer"])
def test_who_makes_no_keys_makes_no_invitations(
    service: Service, accounts: AccountService, admin: Caller, role: str
) -> None:
    caller = caller_as(service, role)
    for work in (
        act(service, caller).invitations.add,
        act(service, caller).invitations.list,
        lambda: Agents(service.tenant("default"), caller).change("bobs-bot", owner=None),
    ):
        with pytest.raises(NotAllowed):
            work()


def test_open_registration_makes_an_owner_who_may_come_again(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    with pytest.raises(NotAllowed, match="without an invitation"):
        act(service, ANYBODY).accounts.register("bobs-bot", "bob")
    act(service, admin).tenants.change("default", {"registration": "open"})
    bob = accounts.authenticate(
        str(act(service, ANYBODY).accounts.register("bobs-bot", "bob").secret)
    )
    with pytest.raises(Conflict):
        act(service, ANYBODY).accounts.register("bobs-other", "bob")
    assert act(service, bob).accounts.register("bobs-other").key.owner == "bob"
    with pytest.raises(NotAllowed, match="the key is that of 'bob'"):
        act(service, bob).accounts.register("eves-bot", "eve")


def test_the_log_says_who_did_it_and_from_where(
    service: Service, accounts: AccountService, admin: Caller
) -> None:
    with act_as(admin.actor):
        made = act(service, admin).keys.add("ci")
    entry = service.app.store.audit_log.entries(limit=1)[0]
    assert (entry.event, entry.actor, entry.address) == (
        "key created",
        "admin operator",
        "192.0.2.1",
    )
    assert str(made.secret) not in repr(service.app.store.audit_log.entries())
