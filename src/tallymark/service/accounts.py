"""`AccountService`: who may use a server, and as what.

The service is of one tenant, whose keys, invitations and agents it manages; only `authenticate`,
`resume` and `accept_invitation` find the tenant by what they are given. Everything that changes
anything takes the `Caller` who asks, refuses what they may not do, and is in the audit log.

Who may what: admins everything in their tenant; organisers the keys of reporters, agents and
viewers, invitations for those, and agents; everybody their own key. Admins of the tenant `default`
are the operators: they also make tenants and change their settings, but see nothing inside them.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tallymark.challenges.agent_names import check_handle
from tallymark.errors import (
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotSignedIn,
    WorkFailed,
)
from tallymark.service.callers import KEY_ROLES, Caller, Role, check_key_role
from tallymark.service.limits import group_address
from tallymark.store.accounts import invitations, sessions
from tallymark.store.accounts.keys import (
    PREFIX,
    USED_AFTER,
    KeyRecord,
    check_owner,
    hash_secret,
    make_record,
    make_secret,
)
from tallymark.store.accounts.tenants import DEFAULT, Tenant, TenantSettings, change_settings

if TYPE_CHECKING:
    from tallymark.store import Store
    from tallymark.store.accounts.invitations import Invitation
    from tallymark.store.accounts.sessions import Session

ADMIN_VARIABLE = "TALLY_ADMIN_KEY"
FIRST_OWNER = "operator"
TTL = 2.0
"""Seconds for which a key that was seen is believed unseen: so long a revoked one may be used."""
SESSION_S = 7 * 86_400.0
MAY_MAKE: dict[Role, tuple[Role, ...]] = {
    "admin": KEY_ROLES,
    "organiser": ("reporter", "agent", "viewer"),
}
"""Whose keys each role makes, rotates and revokes, beside its own."""
_INVITED_S = 14 * 86_400.0
_LONGEST_OVERLAP_S = 30 * 86_400.0
_SHORTEST_GIVEN = 32
_FEWEST_CHARACTERS = 8
"""Different ones, in a key that was given; of 32 random digits nearly all have that many."""
_LONGEST_KEY = 512
_MOST_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made: `text` is the key itself, which is shown now and never again."""

    text: str
    key: KeyRecord


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """The same of an invitation."""

    text: str
    invitation: Invitation


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody who is signed in on pages."""

    caller: Caller
    csrf: str
    expires_at: float
    token: str | None = None
    """For their browser, when they have just signed in."""


class _Seen:
    """Keys that were looked up within the last moments, by their hash; shared by tenants."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[float, Any]] = {}

    def recall(self, digest: bytes, now: float) -> Any:
        """What was found for it; None when that is too long ago, or a clock went back."""
        seen = self._found.get(digest)
        return seen[1] if seen is not None and 0 <= now - seen[0] < TTL else None

    def keep(self, digest: bytes, now: float, found: Any) -> None:
        if len(self._found) >= _MOST_SEEN:
            self._found = {}
        self._found[digest] = (now, found)

    def forget_all(self) -> None:
        self._found = {}


class AccountService:
    """What servers and commands do about accounts, for one tenant."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._seen = _Seen()

    def for_tenant(self, tenant: str) -> AccountService:
        """The same for another tenant. What is revoked there is refused here at once."""
        share = AccountService(self._store.for_tenant(tenant), clock=self._clock)
        share._seen = self._seen
        return share

    # Who asks

    def authenticate(self, text: str, address: str | None = None) -> Caller:
        """Whose key this is. It is looked up at most every two seconds."""
        caller = self.recall(text, address)
        if caller is not None:
            return caller
        if not (text.startswith(PREFIX) and len(text) <= _LONGEST_KEY):
            raise NotSignedIn("this is no key", hint=f"a key begins with {PREFIX}")
        now = self._clock()
        key = _require_valid(self._store.keys.find(text), now)
        caller = make_caller(key, text)
        # One that expires within those seconds is looked up again by whoever comes next.
        if key.expires_at is None or key.expires_at - now > TTL:
            self._seen.keep(_digest(text), now, caller)
        self._mark_used(key, now)
        return replace(caller, address=address)

    def recall(self, text: str, address: str | None = None) -> Caller | None:
        """The same where it was looked up just before: this takes no time, and never waits."""
        caller: Caller | None = self._seen.recall(_digest(text), self._clock())
        return None if caller is None else _place(caller, address)

    def sign_in(self, text: str, address: str | None = None) -> SignedIn:
        """Makes a session for pages of whoever has this key."""
        caller = self.authenticate(text, address)
        now = self._clock()
        key = _require_valid(self._store.keys.find(text), now)
        until = now + SESSION_S if key.expires_at is None else min(now + SESSION_S, key.expires_at)
        session = sessions.Session(
            key=key, csrf=secrets.token_urlsafe(32), created_at=now, expires_at=until
        )
        token = make_secret(sessions.PREFIX)
        self._store.sessions.add(session, token)
        return SignedIn(caller, session.csrf, until, token)

    def resume(self, token: str, address: str | None = None) -> SignedIn:
        """Who is signed in by this session. It ends with its key."""
        now = self._clock()
        name = b"session " + _digest(token)  # of what is remembered, a key is no session
        session: Session | None = self._seen.recall(name, now)
        if session is None:
            session = self._store.sessions.find(token)
            if session is None or session.expires_at <= now:
                raise NotSignedIn("the session is over", hint="sign in again")
            _require_valid(session.key, now)
            self._seen.keep(name, now, session)
            self._mark_used(session.key, now)
        caller = _place(make_caller(session.key, token), address)
        return SignedIn(caller, session.csrf, session.expires_at)

    def find_ended(self, credentials: Collection[str]) -> set[str]:
        """Those of some keys and sessions, by their hashes, that open nothing any more."""
        return set(credentials) - self._store.sessions.find_open(credentials, at=self._clock())

    def sign_out(self, token: str) -> None:
        """Ends a session."""
        self._store.sessions.remove(token)
        self._seen.forget_all()

    def sign_out_everywhere(self, caller: Caller) -> int:
        """Ends all sessions of the caller's owner; how many they were. Keys stay as they are."""
        if caller.owner is None:
            raise NotAllowed("nobody is signed in")
        store = self._store.for_tenant(caller.tenant)
        ended = store.sessions.remove_all(caller.owner, at=self._clock())
        self._seen.forget_all()
        return ended

    def end_sessions(self, caller: Caller, owner: str) -> int:
        """The same for somebody else, by an admin of their tenant."""
        if caller.role != "admin" or not self._is_at_home(caller):
            raise NotAllowed("only an admin signs others out", hint="ask one, or revoke their key")
        ended = self._store.sessions.remove_all(owner, at=self._clock())
        self._seen.forget_all()
        return ended

    def _mark_used(self, key: KeyRecord, now: float) -> None:
        if key.last_used_at is not None and now - key.last_used_at < USED_AFTER:
            return
        with suppress(WorkFailed):  # nobody is kept out because this cannot be written
            self._store.for_tenant(key.tenant).keys.mark_used(key.id, at=now)

    # Keys

    def ensure_admin_key(self, given: str | None = None) -> str | None:
        """Sees to it that there is an admin: by the given key, or by a new one, if there is none.

        The new key is returned, to be shown once. `given` is what `TALLY_ADMIN_KEY` says.
        """
        fields = {"tenant": self._store.tenant, "owner": FIRST_OWNER, "role": "admin"}
        now = self._clock()
        if given:
            _check_given(given)
            record = make_record(name=ADMIN_VARIABLE, created_at=now, **fields)
            found = self._store.keys.add_given(record, given)
            right = (found.tenant, found.role) == (record.tenant, record.role)
            if not (right and found.is_valid(now)):
                raise InvalidInput(
                    f"the key in {ADMIN_VARIABLE} is revoked, or not an admin's",
                    hint="give another one, or none",
                )
            return None
        text = make_secret()
        record = make_record(name="first key", created_at=now, **fields)
        return text if self._store.keys.add_first_admin(record, text) else None

    def create_key(
        self,
        caller: Caller,
        *,
        role: str,
        name: str = "",
        owner: str | None = None,
        agent: str | None = None,
        expires_at: float | None = None,
    ) -> NewKey:
        """Makes a key. One of an agent names the agent, which is made known as its owner's."""
        self._require_manager(caller, role)
        if (agent is not None) != (role == "agent"):
            raise InvalidInput(
                "the key of an agent names the agent, and no other key does",
                hint="give a handle (--agent) with the role agent, and none with others",
            )
        if agent is not None:
            check_handle(agent)
        now = self._clock()
        _check_expiry(expires_at, now)
        owner = owner or (agent if caller.owner is None else caller.owner) or FIRST_OWNER
        record = make_record(
            tenant=self._store.tenant,
            name=name or agent or role,
            owner=owner,
            role=role,
            agent=agent,
            created_at=now,
            expires_at=expires_at,
        )
        text = make_secret()
        self._store.keys.add(record, text)
        return NewKey(text, record)

    def list_keys(
        self, caller: Caller, *, owner: str | None = None, agent: str | None = None
    ) -> list[KeyRecord]:
        """The keys that the caller may manage, oldest first; revoked and expired ones too."""
        self.find_settings()  # a tenant that nobody made has none
        found = self._store.keys.all(owner=owner, agent=agent)
        return [each for each in found if self._may_manage(caller, each)]

    def get_key(self, caller: Caller, key_id: str) -> KeyRecord:
        """A key that the caller may manage; any other is as if it were not there."""
        key = self._store.keys.get(key_id)
        if not self._may_manage(caller, key):
            raise NotFound(f"there is no key {key_id!r}", hint="list the keys")
        return key

    def rotate_key(
        self,
        caller: Caller,
        key_id: str,
        *,
        overlap_s: float = 0.0,
        expires_at: float | None = None,
    ) -> NewKey:
        """A new key in the place of another, which stays good for the overlap.

        It expires when the old one would have, unless a manager says otherwise.
        """
        if not 0 <= overlap_s <= _LONGEST_OVERLAP_S:
            raise InvalidInput("an overlap is from 0 seconds to 30 days")
        old = self.get_key(caller, key_id)
        now = self._clock()
        if not old.is_valid(now):
            raise Conflict(f"the key {key_id} is revoked or expired", hint="make a new one")
        if expires_at is not None:
            self._require_manager(caller, old.role)
            _check_expiry(expires_at, now)
        new = msgspec.structs.replace(
            old,
            id=f"key_{secrets.token_hex(8)}",
            created_at=now,
            last_used_at=None,
            expires_at=old.expires_at if expires_at is None else expires_at,
        )
        text = make_secret()
        self._store.keys.rotate(old, new, text, until=now + overlap_s)
        self._seen.forget_all()
        return NewKey(text, new)

    def revoke_key(self, caller: Caller, key_id: str) -> KeyRecord:
        """The key opens nothing any more: here from now on, at other servers within seconds."""
        self.get_key(caller, key_id)
        revoked = self._store.keys.revoke(key_id, at=self._clock())
        self._seen.forget_all()
        return revoked

    # Tenants

    def create_tenant(
        self, caller: Caller, name: str, settings: Mapping[str, Any] | None = None
    ) -> NewKey:
        """Makes a tenant that allows what is given; the key is that of its first admin."""
        require_operator(caller)
        allowed = change_settings(TenantSettings(), settings or {})
        fields = {"tenant": name, "owner": FIRST_OWNER, "role": "admin"}
        record = make_record(name="first key", created_at=self._clock(), **fields)
        text = make_secret()
        store = self._store.for_tenant(name)
        store.keys.add_with_tenant(allowed, record, text)
        return NewKey(text, record)

    def list_tenants(self, caller: Caller) -> list[Tenant]:
        """Every tenant, by name."""
        require_operator(caller)
        found = self._store.tenants.all()
        if any(each.name == DEFAULT for each in found):
            return found
        first = Tenant(name=DEFAULT, settings=TenantSettings(), created_at=0.0)
        return sorted([first, *found], key=lambda each: each.name)

    def find_settings(self, tenant: str | None = None) -> TenantSettings:
        """What a tenant allows, this one unless another is named; looked up every two seconds."""
        tenant = tenant or self._store.tenant
        name, now = f"settings of {tenant}".encode(), self._clock()
        found: TenantSettings | None = self._seen.recall(name, now)
        if found is None:
            found = self._store.for_tenant(tenant).tenants.settings()
            self._seen.keep(name, now, found)
        return found

    def change_settings(self, caller: Caller, **changes: Any) -> TenantSettings:
        """Changes what the tenant allows; None is the default again. Limits are the operator's."""
        if caller.role != "admin" or not self._is_at_home(caller):
            require_operator(caller)
        if "limits" in changes:
            require_operator(caller)
        changed = self._store.tenants.change(changes, at=self._clock())
        self._seen.forget_all()
        return changed

    # Invitations and registration

    def invite(
        self,
        caller: Caller,
        *,
        role: str = "agent",
        owner: str | None = None,
        uses: int = 1,
        expires_at: float | None = None,
    ) -> NewInvitation:
        """An invitation to a key of this role, for an owner or for whoever has it."""
        self._require_manager(caller, role)
        now = self._clock()
        made = invitations.make_invitation(
            tenant=self._store.tenant,
            role=role,
            owner=owner,
            uses_left=uses,
            expires_at=now + _INVITED_S if expires_at is None else expires_at,
            made_by=caller.name,
            created_at=now,
        )
        text = make_secret(invitations.PREFIX)
        self._store.invitations.add(made, text)
        return NewInvitation(text, made)

    def list_invitations(self, caller: Caller) -> list[Invitation]:
        """Those that the caller could have made, oldest first."""
        may = MAY_MAKE.get(caller.role, ()) if self._is_at_home(caller) else ()
        if not may:
            raise NotAllowed(f"a key for {caller.role} cannot manage invitations")
        self.find_settings()  # a tenant that nobody made has none
        return [each for each in self._store.invitations.all() if each.role in may]

    def revoke_invitation(self, caller: Caller, invitation_id: str) -> None:
        """Nobody can accept it any more."""
        if not any(each.id == invitation_id for each in self.list_invitations(caller)):
            raise NotFound(f"there is no invitation {invitation_id!r}", hint="list them")
        self._store.invitations.revoke(invitation_id, at=self._clock())

    def look_at_invitation(self, text: str) -> Invitation | None:
        """What somebody who has an invitation may know of it; None of one that cannot be used."""
        found = self._store.invitations.find(text)
        usable = found is not None and found.revoked_at is None and found.uses_left > 0
        return found if found is not None and usable and found.expires_at > self._clock() else None

    def accept_invitation(
        self,
        text: str,
        *,
        owner: str | None = None,
        agent: str | None = None,
        secret: str | None = None,
    ) -> NewKey:
        """Makes the invited an owner with a key, and registers their agent; takes one use.

        Who brings the `secret` of the key has it even when this answer is lost, and may ask again:
        docs/decisions/0057-keys-of-invitations.md.
        """
        found = self._store.invitations.find(text)
        if found is None:
            raise NotFound("this invitation is not known", hint="check that all of it was copied")
        if owner is not None and found.owner not in (None, owner):
            raise Conflict(f"the invitation is for {found.owner!r}", hint="leave the owner out")
        owner = found.owner or owner
        if owner is None:
            raise InvalidInput("the invitation needs an owner", hint="say whose the key will be")
        if (agent is not None) != (found.role == "agent"):
            raise InvalidInput(
                f"the invitation is to a key for: {found.role}",
                hint="give the handle of an agent (--agent) where it is agent, and none otherwise",
            )
        now = self._clock()
        record = make_record(
            tenant=found.tenant,
            name=agent or found.role,
            owner=owner,
            role=found.role,
            agent=agent,
            created_at=now,
        )
        key = secret or make_secret()
        store = self._store.for_tenant(found.tenant)
        return NewKey(key, store.invitations.accept(found, record, key, at=now))

    def register(self, caller: Caller, *, agent: str, owner: str | None = None) -> NewKey:
        """Registers an agent of whoever comes, where the tenant is open; a new owner needs no key.

        An owner who is known already shows a key of theirs.
        """
        proven = caller.owner if self._is_at_home(caller) else None
        if proven is not None and owner not in (None, proven):
            raise NotAllowed(
                f"the key is that of {proven!r}", hint="leave the owner out, or send no key"
            )
        owner = proven or owner
        if owner is None:
            raise InvalidInput("an agent is an owner's", hint="say whose it is")
        now = self._clock()
        record = make_record(
            tenant=self._store.tenant,
            name=agent,
            owner=owner,
            role="agent",
            agent=agent,
            created_at=now,
        )
        text = make_secret()
        self._store.invitations.register(
            record,
            text,
            address=group_address(caller.address),
            known_owner=proven is not None,
            at=now,
        )
        return NewKey(text, record)

    def give_agent(self, caller: Caller, agent: str, owner: str | None) -> None:
        """Makes an agent an owner's, or nobody's: for those who manage keys of agents."""
        self._require_manager(caller, "agent")
        if owner is not None:
            check_owner(owner)
        self._store.agents.give(agent, owner, at=self._clock())

    # Who may

    def _is_at_home(self, caller: Caller) -> bool:
        return caller.tenant == self._store.tenant

    def _may_manage(self, caller: Caller, key: KeyRecord) -> bool:
        if not self._is_at_home(caller):
            return False
        return key.id == caller.key_id or key.role in MAY_MAKE.get(caller.role, ())

    def _require_manager(self, caller: Caller, role: str) -> None:
        check_key_role(role)
        if not self._is_at_home(caller) or role not in MAY_MAKE.get(caller.role, ()):
            raise NotAllowed(
                f"a key for {caller.role} cannot manage keys for {role}", hint="ask an admin"
            )


def require_operator(caller: Caller) -> None:
    """Refuses whoever is no admin of the tenant `default`."""
    if (caller.tenant, caller.role) != (DEFAULT, "admin"):
        raise NotAllowed("tenants are the operator's", hint=f"ask an admin of tenant {DEFAULT!r}")


def make_caller(key: KeyRecord, secret: str) -> Caller:
    """Who came with this key, or a session of it. Nobody but an agent is called as one could be."""
    name = key.agent if key.agent is not None else f"{key.role} {key.owner}"
    role = cast("Role", key.role)
    return Caller(
        key.tenant,
        role,
        name,
        owner=key.owner,
        agent=key.agent,
        key_id=key.id,
        credential=hash_secret(secret),
    )


def _place(caller: Caller, address: str | None) -> Caller:
    return Caller(
        caller.tenant,
        caller.role,
        caller.name,
        caller.owner,
        caller.agent,
        caller.key_id,
        address,
        caller.credential,
    )


def _digest(text: str) -> bytes:
    """What a key is remembered by: the key itself stays in no memory of ours."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _require_valid(key: KeyRecord | None, now: float) -> KeyRecord:
    if key is None:
        raise NotSignedIn("the key is not known", hint="check that all of it was copied")
    if key.revoked_at is not None:
        raise NotSignedIn("the key was revoked", hint="ask for a new one")
    if not key.is_valid(now):
        raise NotSignedIn("the key has expired", hint="ask for a new one")
    return key


def _check_given(text: str) -> None:
    rest = text.removeprefix(PREFIX)
    usable = text.isascii() and text.isprintable() and " " not in text
    if not (text.startswith(PREFIX) and usable and _SHORTEST_GIVEN <= len(rest) <= _LONGEST_KEY):
        raise InvalidInput(
            f"the key in {ADMIN_VARIABLE} cannot be used",
            hint=f"give {PREFIX} and at least {_SHORTEST_GIVEN} more characters, as from:"
            f" echo {PREFIX}$(openssl rand -hex 32)",
        )
    thirds = [rest[at : at + 3] for at in range(len(rest) - 2)]
    if len(set(rest)) < _FEWEST_CHARACTERS or len(set(thirds)) < len(thirds) * 2 / 3:
        raise InvalidInput(
            f"the key in {ADMIN_VARIABLE} is easy to guess: it repeats few characters or words",
            hint=f"make one: echo {PREFIX}$(openssl rand -hex 32)",
        )


def _check_expiry(expires_at: float | None, now: float) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidInput("the key would have expired already", hint="name a later time")
