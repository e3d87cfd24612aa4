"""What commands ask that is for organisers and admins: agents."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tallymark.desk.answers import read_told
from tallymark.store.contests.agents import AgentRecord

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.service.app import App


class OrganiserDesk(Protocol):
    """Agents; of a tenant, where it is a database."""

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


@dataclass(frozen=True)
class LocalOrganiser:
    """By whoever has the database."""

    app: App

    def list_agents(self, *, owner: str | None) -> list[AgentRecord]:
        """Agents by handle."""
        return self.app.store.agents.all(owner=owner)

    def name_agent(self, agent: str, name: str) -> None:
        """Says what boards show."""
        self.app.store.require()
        self.app.store.agents.name_agent(agent, name, at=time.time())

    def give_agent(self, agent: str, owner: str | None) -> None:
        """Says whose it is."""
        from tallymark.service.keys import give_agent  # noqa: PLC0415 (who asks loads it)
        from tallymark.service.settings import ServiceSettings  # noqa: PLC0415
        from tallymark.service.tenant import TenantServices  # noqa: PLC0415

        self.app.store.require()
        give_agent(TenantServices(self.app, ServiceSettings(own=True)), None, agent, owner)

    def disqualify(self, agent: str, reason: str) -> None:
        """Takes an agent off all boards."""
        self.app.store.require()
        self.app.store.disqualifications.disqualify(agent, at=time.time(), reason=reason)

    def reinstate(self, agent: str, reason: str) -> None:
        """Puts it back."""
        self.app.store.require()
        self.app.store.disqualifications.reinstate(agent, at=time.time(), reason=reason)


@dataclass(frozen=True)
class RemoteOrganiser:
    """By the key of an organiser or admin."""

    client: Client

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
