"""`AccountService`: callers by their keys and sessions, for all tenants of a database.

Keys are made and revoked by the operations in `keys.py`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from tallymark.errors import InvalidInput, NotAllowed, NotSignedIn, WorkFailed
from tallymark.service.callers import Caller, Role
from tallymark.service.keys import FIRST_OWNER
from tallymark.store import keys
from tallymark.store.keys import PREFIX, USED_AFTER, Key, hash_secret, make_record, make_secret

if TYPE_CHECKING:
    from tallymark.store import Store
    from tallymark.store.invitations import Invitation
    from tallymark.store.keys import Session
    from tallymark.store.tenants import TenantSettings

ADMIN_VARIABLE = "TALLY_ADMIN_KEY"
TTL = 2.0
"""Seconds for which a key that was seen is believed unseen: so long a revoked one may be used."""
SESSION_S = 7 * 86_400.0
_SHORTEST_GIVEN = 32
_FEWEST_CHARACTERS = 8
"""Different ones, in a key that was given; of 32 random digits nearly all have that many."""
_LONGEST_KEY = 512
_MOST_SEEN = 10_000


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A user signed in on the pages."""

    caller: Caller
    csrf: str
    expires_at: float
    token: str | None = None
    """For their browser, when they have just signed in."""


class _Seen:
    """Keys, sessions and settings that were looked up just now, by hash; shared by tenants."""

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[float, Any]] = {}

    def recall(self, digest: bytes, now: float) -> Any:
        """Return what was found; None if that is too long ago, or the clock went back."""
        seen = self._found.get(digest)
        return seen[1] if seen is not None and 0 <= now - seen[0] < TTL else None

    def keep(self, digest: bytes, now: float, found: Any) -> None:
        if len(self._found) >= _MOST_SEEN:
            self._found = {}
        self._found[digest] = (now, found)

    def forget_all(self) -> None:
        self._found = {}


class AccountService:
    """Keys, sessions and settings that requests are checked by."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._seen = _Seen()

    def forget(self) -> None:
        """Forget the keys, sessions and settings that were looked up: one of them has changed."""
        self._seen.forget_all()

    # Callers

    def authenticate(self, text: str, address: str | None = None) -> Caller:
        """Find the caller of a key; it is looked up at most every two seconds."""
        caller = self.recall(text, address)
        if caller is not None:
            return caller
        if not (text.startswith(PREFIX) and len(text) <= _LONGEST_KEY):
            raise NotSignedIn("this is not a key", hint=f"a key begins with {PREFIX}")
        now = self._clock()
        key = _require_valid(self._store.keys.find(text), now)
        caller = make_caller(key, text)
        # A session that expires within those seconds is looked up again at the next request.
        if key.expires_at is None or key.expires_at - now > TTL:
            self._seen.keep(_digest(text), now, caller)
        self._mark_used(key, now)
        return replace(caller, address=address)

    def recall(self, text: str, address: str | None = None) -> Caller | None:
        """Find the caller if the key was looked up just before, without waiting; else None."""
        caller: Caller | None = self._seen.recall(_digest(text), self._clock())
        return None if caller is None else _place(caller, address)

    def sign_in(self, text: str, address: str | None = None) -> SignedIn:
        """Start a session on pages by a key."""
        caller = self.authenticate(text, address)
        now = self._clock()
        key = _require_valid(self._store.keys.find(text), now)
        until = now + SESSION_S if key.expires_at is None else min(now + SESSION_S, key.expires_at)
        session = keys.Session(
            key=key, csrf=secrets.token_urlsafe(32), created_at=now, expires_at=until
        )
        token = make_secret(keys.SESSION_PREFIX)
        self._store.sessions.add(session, token)
        return SignedIn(caller, session.csrf, until, token)

    def resume(self, token: str, address: str | None = None) -> SignedIn:
        """Find the caller of a session; it ends with its key."""
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
        """Find the keys and sessions that are no longer valid, of some given by their hashes."""
        return set(credentials) - self._store.sessions.find_open(credentials, at=self._clock())

    def sign_out(self, token: str) -> None:
        """End a session."""
        self._store.sessions.remove(token)
        self._seen.forget_all()

    def sign_out_everywhere(self, caller: Caller) -> int:
        """End all sessions of the caller's owner and return their number; keys stay valid."""
        if caller.owner is None:
            raise NotAllowed("you are not signed in")
        return self.end_sessions(caller, caller.owner)

    def end_sessions(self, caller: Caller, owner: str) -> int:
        """End all sessions of an owner in the caller's tenant: the caller's own, or by an admin."""
        if caller.owner != owner and caller.role != "admin":
            raise NotAllowed("only an admin signs others out", hint="ask one, or revoke their key")
        store = self._store.for_tenant(caller.tenant)
        ended = store.sessions.remove_all(owner, at=self._clock())
        self._seen.forget_all()
        return ended

    def _mark_used(self, key: Key, now: float) -> None:
        if key.last_used_at is not None and now - key.last_used_at < USED_AFTER:
            return
        with suppress(WorkFailed):  # a failed write here must not refuse the user
            self._store.for_tenant(key.tenant).keys.mark_used(key.id, at=now)

    # Keys

    def ensure_admin_key(self, given: str | None = None) -> str | None:
        """Make the given key an admin's, or make and return a new one if there is no admin.

        `given` is the value of `TALLY_ADMIN_KEY`.
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

    # Settings

    def find_settings(self, tenant: str | None = None) -> TenantSettings:
        """Find what a tenant allows, by default that of the store; it is read every two seconds."""
        tenant = tenant or self._store.tenant
        name, now = f"settings of {tenant}".encode(), self._clock()
        found: TenantSettings | None = self._seen.recall(name, now)
        if found is None:
            found = self._store.for_tenant(tenant).tenants.settings()
            self._seen.keep(name, now, found)
        return found

    # Invitations

    def look_at_invitation(self, text: str) -> Invitation | None:
        """Find an invitation by its code; None if it cannot be accepted."""
        found = self._store.invitations.find(text)
        usable = found is not None and found.revoked_at is None and found.uses_left > 0
        return found if found is not None and usable and found.expires_at > self._clock() else None


def make_caller(key: Key, secret: str) -> Caller:
    """Make the caller of a key or its session. Only agents have names that agents can have."""
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
    """Hash a key, so that the key itself is not in memory."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def _require_valid(key: Key | None, now: float) -> Key:
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
