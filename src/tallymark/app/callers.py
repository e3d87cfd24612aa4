"""Who asks: found once by whatever door they came through, and handed to services as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tallymark.store.actors import Actor

Role = Literal["admin", "organiser", "reporter", "agent", "viewer", "anonymous"]
KEY_ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "anonymous")
"""What a key can be for."""
ORGANISERS: frozenset[Role] = frozenset({"admin", "organiser"})


SESSION_COOKIE = "tally_session"
"""Under which a browser keeps who is signed in on pages."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose key was seen, or nobody in particular."""

    tenant: str
    role: Role
    name: str
    """What the audit log calls them: the agent, or the key's name."""
    owner: str | None = None
    agent: str | None = None
    """The one agent that an agent's key speaks for."""
    key_id: str | None = None
    address: str | None = None

    @property
    def actor(self) -> Actor:
        """For `act_as`."""
        return Actor(self.name, self.address)


def make_guest(address: str | None) -> Caller:
    """Whoever looks at an example: they may see what a team sees, and change nothing."""
    return Caller("default", "viewer", "guest", address=address)
