"""Keys, invitations, variables, secrets, limits, jobs and the audit log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Handle, Listed, Moment, Told

KeyRole = Literal["admin", "organiser", "reporter", "agent", "viewer"]
InvitedRole = Literal["organiser", "reporter", "agent", "viewer"]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$", examples=["ENDPOINT"])]


class NewKey(Asked):
    """A key to be made. It is shown once."""

    name: str = Field(min_length=1, max_length=100, examples=["ci"])
    role: KeyRole = "viewer"
    agent: Handle | None = Field(None, description="The agent that an agent's key speaks for.")
    owner: str | None = Field(None, min_length=1, max_length=100)
    expires_in_s: float | int | None = Field(None, gt=0)


class KeyState(Told):
    """A key, without the key."""

    id: str
    name: str
    role: KeyRole
    owner: str | None = None
    agent: str | None = None
    tenant: str
    created_at: Moment
    expires_at: Moment | None = None
    revoked_at: Moment | None = None
    last_used_at: Moment | None = None
    replaced_by: str | None = Field(None, description="The key that was made in its place.")


class MadeKey(Told):
    """A new key. `secret` is shown this once; asked again, it is null."""

    key: KeyState
    secret: str | None


class KeyPage(Listed[KeyState]):
    """Keys, oldest first."""


class RotateKey(Asked):
    """For how long the old key works beside the new one."""

    overlap_s: float | int = Field(3600, ge=0, le=30 * 86_400)
    expires_in_s: float | int | None = Field(None, gt=0, description="Else with the old one.")


class OneKey(Told):
    """A key."""

    key: KeyState


class CallerState(Told):
    """Who asks, as the server sees them."""

    tenant: str
    role: str = Field(description="A key's role; `anonymous` without one.")
    name: str
    owner: str | None = None
    agent: str | None = Field(None, description="The agent that an agent's key speaks for.")
    key_id: str | None = None


class OneCaller(Told):
    """Who asks."""

    caller: CallerState


class TenantState(Told):
    """Who share a server unseen by others, and what they allow."""

    name: str
    created_at: Moment
    settings: dict[str, Any]


class TenantPage(Listed[TenantState]):
    """Tenants by name."""


class NewInvitation(Asked):
    """Lets others make a key of their own."""

    role: InvitedRole = "agent"
    owner: str | None = Field(None, min_length=1, max_length=100)
    uses: int = Field(1, ge=1, le=10_000)
    expires_in_s: float | int | None = Field(
        None, gt=0, le=365 * 86_400, description="14 days where nothing is said."
    )


class InvitationState(Told):
    """An invitation, without its code."""

    id: str
    role: str
    owner: str | None = Field(None, description="Whom it is for; null is whoever has it.")
    tenant: str
    uses_left: int
    made_by: str
    created_at: Moment
    expires_at: Moment
    revoked_at: Moment | None = None


class MadeInvitation(Told):
    """A new invitation. `code` is shown this once; asked again, it is null."""

    invitation: InvitationState
    code: str | None


class InvitationPage(Listed[InvitationState]):
    """Invitations, oldest first."""


class Accept(Asked):
    """Takes an invitation up: who you are, and the agent that will compete for you."""

    code: str = Field(min_length=1, max_length=200)
    owner: str | None = Field(None, min_length=1, max_length=100, examples=["team-rocket"])
    agent: Handle | None = None
    secret: str | None = Field(
        None,
        pattern=r"^tly_[A-Za-z0-9_-]{43}$",
        description="What the key will be, of 32 random bytes of yours: then it is not lost with an"
        " answer, and asked again, it is the same key. Without it, the server makes one.",
    )


class NewAgent(Asked):
    """Registers an agent where the tenant lets anybody do so, or another one of yours."""

    agent: Handle
    owner: str | None = Field(None, min_length=1, max_length=100)


JobStates = Literal["queued", "running", "done", "failed", "set_aside", "cancelled"]


class JobState(Told):
    """A piece of work that takes longer than a request."""

    id: str
    kind: str
    state: JobStates
    created_at: Moment
    result: Any = None
    error: str | None = None


class OneJob(Told):
    """A job."""

    job: JobState


class LogEntry(Told):
    """Something that was done."""

    seq: int
    at: Moment
    actor: str
    event: str


class LogPage(Listed[LogEntry]):
    """The log, newest first."""


class Limits(Told):
    """What the server takes, readable before it is hit."""

    bodies: dict[str, int]
    values: dict[str, int]
    rates: list[dict[str, Any]]
    formula: dict[str, int]
    traces: dict[str, int]
