"""Callers: found once for each request, and passed to services as a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

from tallymark.errors import NotAllowed, NotSignedIn
from tallymark.store.contests.audit_log import Actor, act_as
from tallymark.store.dry_run import dry_run

Role = Literal["admin", "organiser", "reporter", "agent", "viewer", "anonymous"]
KEY_ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "anonymous")
"""Roles of a key."""
ORGANISERS: frozenset[Role] = frozenset({"admin", "organiser"})
REPORTERS: frozenset[Role] = ORGANISERS | {"reporter"}
COMPETITORS: frozenset[Role] = ORGANISERS | {"agent"}
TEAM: frozenset[Role] = REPORTERS | {"viewer"}
"""Everybody but competitors and the public: runs are theirs."""
MEMBERS: frozenset[Role] = TEAM | {"agent"}
PUBLIC: frozenset[Role] = MEMBERS | {"anonymous"}
"""Also who has no key: they are shown only what is public."""
ADMINS: frozenset[Role] = frozenset({"admin"})


SESSION_COOKIE = "tally_session"
"""Name of the session cookie."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation, with or without a key."""

    tenant: str
    role: Role
    name: str
    """Actor in the audit log: the agent, or the key's name."""
    owner: str | None = None
    agent: str | None = None
    """The one agent that an agent's key speaks for."""
    key_id: str | None = None
    address: str | None = None
    credential: str | None = field(default=None, compare=False, repr=False)
    """The hash of the key or the session that they came with: when that is over, so is this."""

    @property
    def actor(self) -> Actor:
        """For `act_as`."""
        return Actor(self.name, self.address)

    @property
    def asker(self) -> str:
        """Owner of the idempotency keys."""
        return self.key_id or f"{self.name} {self.address}"


@contextmanager
def acting(caller: Caller, *, dry: bool = False) -> Iterator[None]:
    """Name the caller in the audit log of what is done inside; `dry` undoes all that is written.

    Threads that work for the same request see the same.
    """
    with act_as(caller.actor), dry_run(really=dry):
        yield


def check_role(caller: Caller, roles: frozenset[Role]) -> None:
    """Refuses who is none of these."""
    if caller.role in roles:
        return
    if caller.role == "anonymous":
        raise NotSignedIn("this needs a key", hint="send it: Authorization: Bearer tly_...")
    raise NotAllowed(
        f"a key of the role {caller.role!r} may not do this",
        hint=f"it takes one of: {', '.join(sorted(roles))}",
    )


def name_author(caller: Caller | None) -> str:
    """Name the author of scores: the owner of the key, or the user of this machine."""
    if caller is None:
        import getpass  # noqa: PLC0415 (only on a machine of one's own)

        return getpass.getuser()
    return caller.owner or caller.name


def make_guest(address: str | None) -> Caller:
    """Visitor of a demo: sees what a team sees and changes nothing."""
    return Caller("default", "viewer", "guest", address=address)
