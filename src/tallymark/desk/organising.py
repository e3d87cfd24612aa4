"""What commands ask that is for organisers and admins: agents, keys, invitations, the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tallymark.desk.answers import read_told
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.service.callers import check_key_role
from tallymark.store.accounts.invitations import Invitation
from tallymark.store.accounts.keys import KeyRecord
from tallymark.store.contests.agents import AgentRecord
from tallymark.store.contests.audit_log import LogEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.client import Client
    from tallymark.service.accounts import AccountService
    from tallymark.service.app import App
    from tallymark.service.callers import Caller

OWN = "default"
_SHOWN_ONCE = "it was made, and what is shown once was lost on its way here"


class MadeKey(NamedTuple):
    """A new key, and its text, which is shown once."""

    key: KeyRecord
    text: str


class MadeInvitation(NamedTuple):
    """A new invitation, and its text, which is shown once."""

    invitation: Invitation
    text: str


@dataclass(frozen=True, kw_only=True)
class WantedKey:
    """Who is to have a key, and as what."""

    role: str
    name: str = ""
    owner: str | None = None
    agent: str | None = None
    expires_in_s: float | None = None


class TenantFacts(NamedTuple):
    """A tenant, and what it allows by the names of settings."""

    name: str
    settings: dict[str, Any]


class OrganiserDesk(Protocol):
    """Agents, keys, invitations, the log; of a tenant, where it is a database."""

    def list_log(self, *, challenge: str | None, agent: str | None, limit: int) -> list[LogEntry]:
        """What was done, newest first."""

    def list_agents(self, *, owner: str | None) -> list[AgentRecord]:
        """Agents by handle."""

    def name_agent(self, agent: str, name: str) -> None:
        """Says what boards show."""

    def give_agent(self, agent: str, owner: str | None) -> None:
        """Says whose it is."""

    def disqualify(self, agent: str, reason: str) -> None:
        """Takes an agent off all boards."""

    def reinstate(self, agent: str, reason: str) -> None:
        """Puts it back."""

    def create_key(self, wanted: WantedKey) -> MadeKey:
        """Makes a key."""

    def list_keys(self, *, owner: str | None) -> list[KeyRecord]:
        """Keys, oldest first."""

    def rotate_key(self, key: str, *, overlap_s: float, expires_in_s: float | None) -> MadeKey:
        """A key in the place of another."""

    def revoke_key(self, key: str) -> KeyRecord:
        """Ends a key."""

    def invite(
        self, *, role: str, owner: str | None, uses: int, expires_in_s: float | None
    ) -> MadeInvitation:
        """Makes an invitation."""

    def list_invitations(self) -> list[Invitation]:
        """Invitations, oldest first."""

    def revoke_invitation(self, invitation: str) -> None:
        """Ends one."""

    def list_tenants(self) -> list[TenantFacts]:
        """Who share the server, or the database."""


@dataclass(frozen=True)
class LocalOrganiser:
    """By whoever has the database."""

    app: App

    @property
    def _accounts(self) -> AccountService:
        return self.app.accounts

    @property
    def _caller(self) -> Caller:
        """Somebody who may do everything: the database is theirs."""
        from tallymark.service.callers import Caller  # noqa: PLC0415 (with the accounts)

        return Caller(self.app.tenant, "admin", "operator")

    def list_log(self, *, challenge: str | None, agent: str | None, limit: int) -> list[LogEntry]:
        """What was done, newest first."""
        return self.app.store.audit_log.entries(challenge=challenge, agent=agent, limit=limit)

    def list_agents(self, *, owner: str | None) -> list[AgentRecord]:
        """Agents by handle."""
        return self.app.store.agents.all(owner=owner)

    def name_agent(self, agent: str, name: str) -> None:
        """Says what boards show."""
        self.app.store.require()
        self.app.store.agents.name_agent(agent, name, at=time.time())

    def give_agent(self, agent: str, owner: str | None) -> None:
        """Says whose it is."""
        self.app.store.require()
        self._accounts.give_agent(self._caller, agent, owner)

    def disqualify(self, agent: str, reason: str) -> None:
        """Takes an agent off all boards."""
        self.app.store.require()
        self.app.store.disqualifications.disqualify(agent, at=time.time(), reason=reason)

    def reinstate(self, agent: str, reason: str) -> None:
        """Puts it back."""
        self.app.store.require()
        self.app.store.disqualifications.reinstate(agent, at=time.time(), reason=reason)

    def create_key(self, wanted: WantedKey) -> MadeKey:
        """Makes a key."""
        made = self._accounts.create_key(
            self._caller,
            role=wanted.role,
            name=wanted.name,
            owner=wanted.owner,
            agent=wanted.agent,
            expires_at=_find_end(wanted.expires_in_s),
        )
        return MadeKey(made.key, made.text)

    def list_keys(self, *, owner: str | None) -> list[KeyRecord]:
        """Keys, oldest first."""
        return self._accounts.list_keys(self._caller, owner=owner)

    def rotate_key(self, key: str, *, overlap_s: float, expires_in_s: float | None) -> MadeKey:
        """A key in the place of another."""
        made = self._accounts.rotate_key(
            self._caller, key, overlap_s=overlap_s, expires_at=_find_end(expires_in_s)
        )
        return MadeKey(made.key, made.text)

    def revoke_key(self, key: str) -> KeyRecord:
        """Ends a key."""
        return self._accounts.revoke_key(self._caller, key)

    def invite(
        self, *, role: str, owner: str | None, uses: int, expires_in_s: float | None
    ) -> MadeInvitation:
        """Makes an invitation."""
        until = _find_end(expires_in_s)
        made = self._accounts.invite(
            self._caller, role=role, owner=owner, uses=uses, expires_at=until
        )
        return MadeInvitation(made.invitation, made.text)

    def list_invitations(self) -> list[Invitation]:
        """Invitations, oldest first."""
        return self._accounts.list_invitations(self._caller)

    def revoke_invitation(self, invitation: str) -> None:
        """Ends one."""
        self._accounts.revoke_invitation(self._caller, invitation)

    def list_tenants(self) -> list[TenantFacts]:
        """Who share the database."""
        found = self._accounts.list_tenants(self._caller)
        return [TenantFacts(each.name, msgspec.to_builtins(each.settings)) for each in found]


@dataclass(frozen=True)
class RemoteOrganiser:
    """By the key of an organiser or admin."""

    client: Client

    def list_log(self, *, challenge: str | None, agent: str | None, limit: int) -> list[LogEntry]:
        """What was done, newest first."""
        found = self.client.audit(challenge=challenge, agent=agent, limit=limit)
        return [read_told(each, LogEntry) for each in found]

    def list_agents(self, *, owner: str | None) -> list[AgentRecord]:
        """Agents by handle."""
        return [read_told(each, AgentRecord) for each in self.client.agents.list(owner=owner)]

    def name_agent(self, agent: str, name: str) -> None:
        """Says what boards show."""
        self.client.agents.change(agent, {"name": name})

    def give_agent(self, agent: str, owner: str | None) -> None:
        """Says whose it is."""
        self.client.agents.change(agent, {"owner": owner})

    def disqualify(self, agent: str, reason: str) -> None:
        """Takes an agent off all boards."""
        self.client.agents.disqualify(agent, reason=reason)

    def reinstate(self, agent: str, reason: str) -> None:
        """Puts it back."""
        self.client.agents.reinstate(agent, reason=reason)

    def create_key(self, wanted: WantedKey) -> MadeKey:
        """Makes a key."""
        check_key_role(wanted.role)
        given: Mapping[str, Any] = {"role": wanted.role, "agent": wanted.agent}
        made = self.client.accounts.create_key(
            wanted.name or wanted.agent or wanted.role,
            owner=wanted.owner,
            expires_in_s=wanted.expires_in_s,
            **given,
        )
        return self._tell_key(read_told(made.key, KeyRecord), made.secret)

    def list_keys(self, *, owner: str | None) -> list[KeyRecord]:
        """Keys, oldest first."""
        return [read_told(each, KeyRecord) for each in self.client.accounts.keys(owner=owner)]

    def rotate_key(self, key: str, *, overlap_s: float, expires_in_s: float | None) -> MadeKey:
        """A key in the place of another."""
        made = self.client.accounts.rotate_key(key, overlap_s=overlap_s, expires_in_s=expires_in_s)
        return self._tell_key(read_told(made.key, KeyRecord), made.secret)

    def _tell_key(self, key: KeyRecord, text: str | None) -> MadeKey:
        if text is None:
            raise WorkFailed(_SHOWN_ONCE, hint=f"tally admin keys rotate {key.id}")
        return MadeKey(key, text)

    def revoke_key(self, key: str) -> KeyRecord:
        """Ends a key."""
        return read_told(self.client.accounts.revoke_key(key), KeyRecord)

    def invite(
        self, *, role: str, owner: str | None, uses: int, expires_in_s: float | None
    ) -> MadeInvitation:
        """Makes an invitation."""
        check_key_role(role)
        given: Mapping[str, Any] = {"role": role, "owner": owner, "uses": uses}
        made = self.client.accounts.invite(expires_in_s=expires_in_s, **given)
        found = read_told(made.invitation, Invitation)
        if made.code is None:
            raise WorkFailed(_SHOWN_ONCE, hint=f"tally admin invitations revoke {found.id}")
        return MadeInvitation(found, made.code)

    def list_invitations(self) -> list[Invitation]:
        """Invitations, oldest first."""
        return [read_told(each, Invitation) for each in self.client.accounts.invitations()]

    def revoke_invitation(self, invitation: str) -> None:
        """Ends one."""
        self.client.accounts.revoke_invitation(invitation)

    def list_tenants(self) -> list[TenantFacts]:
        """Who share the server."""
        return [TenantFacts(each.name, each.settings) for each in self.client.accounts.tenants()]


def refuse_tenant(tenant: str) -> None:
    """A key has its tenant, and speaks for no other."""
    if tenant != OWN:
        hint = "leave --tenant out, and use a key of that tenant"
        raise InvalidInput("at a server, the key says which tenant", hint=hint)


def _find_end(seconds: float | None) -> float | None:
    return None if seconds is None else time.time() + seconds
