"""Keys, invitations, tenants and registration: records and operations.

Admins do everything in their tenant; organisers manage keys of reporters, agents and viewers, and
invitations to those; everybody manages their own key. Admins of the tenant `default` are the
operators: they also create tenants and change their settings, but see nothing inside them.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tallymark.challenges.agent_names import check_handle
from tallymark.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tallymark.service.callers import (
    ADMINS,
    KEY_ROLES,
    MEMBERS,
    ORGANISERS,
    PUBLIC,
    Caller,
    Role,
)
from tallymark.service.cursors import Cursor, Limit, slice_page
from tallymark.service.limits import group_address
from tallymark.service.operations import Page, Resource, operation
from tallymark.store import invitations
from tallymark.store.invitations import Invitation as Invitation  # noqa: PLC0414 (a record)
from tallymark.store.keys import Key as Key  # noqa: PLC0414 (a record here)
from tallymark.store.keys import make_record, make_secret
from tallymark.store.retention_policy import Retention as Retention  # noqa: PLC0414 (as above)
from tallymark.store.retention_policy import read_days as read_days  # noqa: PLC0414 (as above)
from tallymark.store.tenants import DEFAULT, change_settings
from tallymark.store.tenants import Registration as Registration  # noqa: PLC0414 (as above)
from tallymark.store.tenants import Tenant as Tenant  # noqa: PLC0414 (as above)
from tallymark.store.tenants import TenantSettings as TenantSettings  # noqa: PLC0414

if TYPE_CHECKING:
    pass

FIRST_OWNER = "operator"
INVITATION = invitations.PREFIX
MAY_MAKE: dict[Role, tuple[Role, ...]] = {
    "admin": KEY_ROLES,
    "organiser": ("reporter", "agent", "viewer"),
}
"""Roles whose keys each role creates, rotates and revokes, besides its own key."""
_INVITED_S = 14 * 86_400.0
_SECRET, _CODE = "secret", "code"
KeyRole = Literal["admin", "organiser", "reporter", "agent", "viewer"]
Id = Annotated[str, Meta(max_length=100)]
Owner = Annotated[str, Meta(min_length=1, max_length=100, examples=["team-rocket"])]
Handle = Annotated[str, Meta(max_length=40, description="An agent's handle.")]
Seconds = Annotated[float, Meta(gt=0, description="From now on.")]
OwnSecret = Annotated[
    str,
    Meta(
        pattern=r"^tly_[A-Za-z0-9_-]{43}$",
        max_length=47,
        description="The key, of 32 random bytes, made by the client so that it is not lost with an"
        " answer; a repeated request gets the same key. Else the server makes one.",
    ),
]
_LONGEST_OVERLAP_S = 30 * 86_400
Overlap = Annotated[
    float,
    Meta(
        description="The old key works this long.",
        extra_json_schema={"minimum": 0, "maximum": _LONGEST_OVERLAP_S},
    ),
]
Settings = Annotated[
    dict[str, Any], Meta(description="Settings by name; null restores the default.")
]


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made."""

    key: Key
    secret: Annotated[
        str | None,
        Meta(description="The key itself. It is shown once; in a repeated answer it is null."),
    ]


class NewInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation that was just made."""

    invitation: Invitation
    code: Annotated[
        str | None,
        Meta(description="Opens it. It is shown once; in a repeated answer it is null."),
    ]


class _Managing(Resource):
    """Operations on keys of others."""

    @property
    def roles(self) -> tuple[Role, ...]:
        """Roles whose keys the caller makes, rotates and revokes."""
        if self.caller is None:
            return KEY_ROLES
        is_home = self.caller.tenant == self.services.tenant
        return MAY_MAKE.get(self.caller.role, ()) if is_home else ()

    def check_manager(self, role: str) -> None:
        """Refuse a caller who does not manage keys of a role."""
        if role not in self.roles:
            whose = "the owner" if self.caller is None else self.caller.role
            raise NotAllowed(
                f"a key for {whose} cannot manage keys for {role}", hint="ask an admin"
            )

    def find_end(self, seconds: float | None) -> float | None:
        return None if seconds is None else self.now + seconds


class Keys(_Managing):
    """Keys to the server."""

    @operation("GET /keys", MEMBERS)
    def list(
        self,
        owner: Owner | None = None,
        agent: Handle | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[Key]:
        """List the keys that the caller manages, oldest first, also revoked and expired ones."""
        if not self.store.exists:
            return Page(items=[])
        self.services.accounts.find_settings(self.services.tenant)  # refuses an unknown tenant
        found = self.store.keys.all(owner=owner, agent=agent)
        return slice_page([each for each in found if self._manages(each)], limit, cursor)

    @operation("POST /keys", ORGANISERS, rate="write", status=201, secret=_SECRET)
    def add(
        self,
        name: Annotated[str, Meta(min_length=1, max_length=100, examples=["ci"])],
        role: KeyRole = "viewer",
        agent: Handle | None = None,
        owner: Owner | None = None,
        expires_in_s: Seconds | None = None,
    ) -> NewKey:
        """Make a key, which is shown once. The key of an agent makes the agent its owner's."""
        self.check_manager(role)
        if (agent is not None) != (role == "agent"):
            raise InvalidInput(
                "the key of an agent names the agent, and no other key does",
                hint="give a handle (--agent) with the role agent, and none with others",
            )
        if agent is not None:
            check_handle(agent)
        own = None if self.caller is None else self.caller.owner
        key = make_record(
            tenant=self.services.tenant,
            name=name,
            owner=owner or own or agent or FIRST_OWNER,
            role=role,
            agent=agent,
            created_at=self.now,
            expires_at=self.find_end(expires_in_s),
        )
        secret = make_secret()
        self.store.keys.add(key, secret)
        return NewKey(key=key, secret=secret)

    @operation("POST /keys/{key}/rotate", MEMBERS, rate="write", status=201, secret=_SECRET)
    def rotate(
        self,
        key: Id,
        overlap_s: Overlap = 3600,
        expires_in_s: Annotated[
            float, Meta(gt=0, description="From now on; else it expires with the old one.")
        ]
        | None = None,
    ) -> NewKey:
        """Replace a key by a new one, which is shown once."""
        if not 0 <= overlap_s <= _LONGEST_OVERLAP_S:
            raise InvalidInput("an overlap is from 0 seconds to 30 days")
        old = self._find(key)
        if not old.is_valid(self.now):
            raise Conflict(f"the key {key} is revoked or expired", hint="make a new one")
        if expires_in_s is not None:
            self.check_manager(old.role)
        new = msgspec.structs.replace(
            old,
            id=f"key_{secrets.token_hex(8)}",
            created_at=self.now,
            last_used_at=None,
            expires_at=old.expires_at if expires_in_s is None else self.find_end(expires_in_s),
        )
        secret = make_secret()
        self.store.keys.rotate(old, new, secret, until=self.now + overlap_s)
        self.services.accounts.forget()
        return NewKey(key=new, secret=secret)

    @operation("POST /keys/{key}/revoke", MEMBERS, rate="write", noun="key")
    def revoke(self, key: Id) -> Key:
        """Revoke a key: here at once, at other servers of the database within seconds."""
        self._find(key)
        revoked = self.store.keys.revoke(key, at=self.now)
        self.services.accounts.forget()
        return revoked

    def _find(self, identifier: str) -> Key:
        key = self.store.keys.get(identifier)
        if not self._manages(key):  # as if it did not exist
            raise NotFound(f"there is no key {identifier!r}", hint="list the keys")
        return key

    def _manages(self, key: Key) -> bool:
        caller = self.caller
        is_own = caller is not None and (key.tenant, key.id) == (caller.tenant, caller.key_id)
        return is_own or key.role in self.roles


class Invitations(_Managing):
    """Invitations to a key."""

    @operation("GET /invitations", ORGANISERS)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Invitation]:
        """List invitations that the caller could have made, oldest first."""
        return slice_page(self._load(), limit, cursor)

    @operation("POST /invitations", ORGANISERS, rate="write", status=201, secret=_CODE)
    def add(
        self,
        role: KeyRole = "agent",
        owner: Owner | None = None,
        uses: Annotated[int, Meta(ge=1, le=10_000)] = 1,
        expires_in_s: Annotated[float, Meta(gt=0, le=365 * 86_400, description="Else 14 days.")]
        | None = None,
    ) -> NewInvitation:
        """Make an invitation to a key, for an owner or anybody; its code is shown once."""
        self.check_manager(role)
        made = invitations.make_invitation(
            tenant=self.services.tenant,
            role=role,
            owner=owner,
            uses_left=uses,
            expires_at=self.now + (_INVITED_S if expires_in_s is None else expires_in_s),
            made_by=FIRST_OWNER if self.caller is None else self.caller.name,
            created_at=self.now,
        )
        code = make_secret(invitations.PREFIX)
        self.store.invitations.add(made, code)
        return NewInvitation(invitation=made, code=code)

    @operation("POST /invitations/{invitation}/revoke", ORGANISERS, rate="write", noun="invitation")
    def revoke(self, invitation: Id) -> Invitation:
        """Revoke an invitation; keys that were made with it stay valid."""
        if not any(each.id == invitation for each in self._load()):
            raise NotFound(f"there is no invitation {invitation!r}", hint="list them")
        return self.store.invitations.revoke(invitation, at=self.now)

    @operation(
        "POST /invitations/accept",
        PUBLIC,
        rate="sign-in",
        status=201,
        secret=_SECRET,
        make_secret=make_secret,
    )
    def accept(
        self,
        code: Annotated[str, Meta(min_length=1, max_length=200)],
        owner: Owner | None = None,
        agent: Handle | None = None,
        secret: OwnSecret | None = None,
    ) -> NewKey:
        """Accept an invitation: make a key of one's own and register an agent."""
        if agent is not None:
            check_handle(agent)
        found = self.store.invitations.find(code)
        if found is None:
            raise NotFound("this invitation is not known", hint="check that all of it was copied")
        if owner is not None and found.owner not in (None, owner):
            raise Conflict(f"the invitation is for {found.owner!r}", hint="leave the owner out")
        owner = found.owner or owner
        if owner is None:
            raise InvalidInput(
                "the invitation needs an owner", hint="name the owner of the new key (--owner NAME)"
            )
        if (agent is not None) != (found.role == "agent"):
            raise InvalidInput(
                f"the invitation is to a key for: {found.role}",
                hint="give the handle of an agent (--agent) where it is agent, and none otherwise",
            )
        key = make_record(
            tenant=found.tenant,
            name=agent or found.role,
            owner=owner,
            role=found.role,
            agent=agent,
            created_at=self.now,
        )
        text = secret or make_secret()
        store = self.store.for_tenant(found.tenant)
        return NewKey(key=store.invitations.accept(found, key, text, at=self.now), secret=text)

    def _load(self) -> Sequence[Invitation]:
        if not self.roles:
            raise NotAllowed("this key cannot manage invitations", hint="ask an admin")
        if not self.store.exists:
            return []
        self.services.accounts.find_settings(self.services.tenant)  # refuses an unknown tenant
        return [each for each in self.store.invitations.all() if each.role in self.roles]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The caller as the server knows them."""

    tenant: str
    role: Annotated[str, Meta(description="A key's role; `anonymous` without one.")]
    name: str
    owner: str | None = None
    agent: Annotated[str | None, Meta(description="Agent that an agent's key speaks for.")] = None
    key_id: str | None = None


class Accounts(Resource):
    """The caller's own account, and registration."""

    @operation("GET /me", PUBLIC, noun="caller")
    def me(self) -> Account:
        """Get the caller as the server knows them."""
        caller = self.caller or Caller(self.services.tenant, "admin", FIRST_OWNER)
        return Account(**{name: getattr(caller, name) for name in Account.__struct_fields__})

    @operation("POST /agents", PUBLIC, rate="sign-in", status=201, secret=_SECRET)
    def register(self, agent: Handle, owner: Owner | None = None) -> NewKey:
        """Register an agent if the tenant allows registration; its key is shown once.

        A known owner must present one of their keys.
        """
        check_handle(agent)
        caller = self.caller
        is_home = caller is not None and caller.tenant == self.services.tenant
        proven = caller.owner if caller is not None and is_home else None
        if proven is not None and owner not in (None, proven):
            raise NotAllowed(
                f"the key is that of {proven!r}", hint="leave the owner out, or send no key"
            )
        owner = proven or owner
        if owner is None:
            raise InvalidInput("an agent is an owner's", hint="say whose it is")
        key = make_record(
            tenant=self.services.tenant,
            name=agent,
            owner=owner,
            role="agent",
            agent=agent,
            created_at=self.now,
        )
        secret = make_secret()
        self.store.invitations.register(
            key,
            secret,
            address=group_address(None if caller is None else caller.address),
            known_owner=proven is not None,
            at=self.now,
        )
        return NewKey(key=key, secret=secret)


class Tenants(Resource):
    """Tenants, which share a server unseen by each other."""

    @operation("GET /tenants", ADMINS)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Tenant]:
        """List tenants by name, for operators."""
        self._check_operator()
        return slice_page(self._load(), limit, cursor)

    @operation("GET /tenants/{name}", ADMINS, noun="tenant")
    def get(self, name: Id) -> Tenant:
        """Get a tenant with its settings, for operators and for admins of the tenant."""
        self._check_admin(name)
        self.store.for_tenant(name).tenants.settings()  # refuses an unknown tenant
        return next(each for each in self._load() if each.name == name)

    @operation("POST /tenants", ADMINS, rate="write", status=201, secret=_SECRET)
    def add(self, name: Id, settings: Settings | None = None) -> NewKey:
        """Create a tenant, for operators; the key of its first admin is shown once."""
        self._check_operator()
        allowed = change_settings(TenantSettings(), settings or {})
        key = make_record(
            tenant=name, name="first key", owner=FIRST_OWNER, role="admin", created_at=self.now
        )
        secret = make_secret()
        self.store.for_tenant(name).keys.add_with_tenant(allowed, key, secret)
        return NewKey(key=key, secret=secret)

    @operation("PATCH /tenants/{name}", ADMINS, rate="write", noun="tenant", body="settings")
    def change(self, name: Id, settings: Settings) -> Tenant:
        """Change settings of a tenant, for its admins; its rate limits are the operator's."""
        self._check_admin(name)
        if "limits" in settings:
            self._check_operator()
        self.store.for_tenant(name).tenants.change(settings, at=self.now)
        self.services.accounts.forget()
        return self.get(name)

    def _load(self) -> Sequence[Tenant]:
        found = self.store.tenants.all()
        if any(each.name == DEFAULT for each in found):
            return found
        first = Tenant(name=DEFAULT, settings=TenantSettings(), created_at=0.0)
        return sorted([first, *found], key=lambda each: each.name)

    def _check_admin(self, name: str) -> None:
        if self.caller is None or (self.caller.tenant, self.caller.role) != (name, "admin"):
            self._check_operator()

    def _check_operator(self) -> None:
        if self.caller is not None and not is_operator(self.caller):
            raise NotAllowed(
                "tenants are the operator's", hint=f"ask an admin of tenant {DEFAULT!r}"
            )


def is_operator(caller: Caller) -> bool:
    return (caller.tenant, caller.role) == (DEFAULT, "admin")
