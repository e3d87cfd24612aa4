"""All operations by subject, run here for a caller or sent to a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from tallymark.service.app import App
from tallymark.service.settings import ServiceSettings
from tallymark.service.tenant import TenantServices

if TYPE_CHECKING:
    from tallymark.service.agents import Agents
    from tallymark.service.attempts import Attempts
    from tallymark.service.audit import Audit
    from tallymark.service.boards import Boards
    from tallymark.service.callers import Caller
    from tallymark.service.challenges import Challenges
    from tallymark.service.exports import Exports
    from tallymark.service.formulas import Formulas
    from tallymark.service.jobs import Jobs
    from tallymark.service.keys import Accounts, Invitations, Keys, Tenants
    from tallymark.service.loads import Loads
    from tallymark.service.operations import Resource, Sender
    from tallymark.service.ratings import Ratings
    from tallymark.service.reports import Reports
    from tallymark.service.reviews import Scores
    from tallymark.service.rules import Rules
    from tallymark.service.runs import Runs
    from tallymark.service.server_limits import Limits
    from tallymark.service.suite_variables import Settings
    from tallymark.service.traces import Traces
    from tallymark.service.tracks import Tracks
    from tallymark.service.versus import Versus
    from tallymark.service.webhooks import Webhooks
    from tallymark.store import Store

RESOURCES = {
    "accounts": "tallymark.service.keys:Accounts",
    "agents": "tallymark.service.agents:Agents",
    "attempts": "tallymark.service.attempts:Attempts",
    "audit": "tallymark.service.audit:Audit",
    "boards": "tallymark.service.boards:Boards",
    "challenges": "tallymark.service.challenges:Challenges",
    "exports": "tallymark.service.exports:Exports",
    "formulas": "tallymark.service.formulas:Formulas",
    "invitations": "tallymark.service.keys:Invitations",
    "jobs": "tallymark.service.jobs:Jobs",
    "keys": "tallymark.service.keys:Keys",
    "limits": "tallymark.service.server_limits:Limits",
    "loads": "tallymark.service.loads:Loads",
    "ratings": "tallymark.service.ratings:Ratings",
    "reports": "tallymark.service.reports:Reports",
    "rules": "tallymark.service.rules:Rules",
    "runs": "tallymark.service.runs:Runs",
    "scores": "tallymark.service.reviews:Scores",
    "settings": "tallymark.service.suite_variables:Settings",
    "tenants": "tallymark.service.keys:Tenants",
    "traces": "tallymark.service.traces:Traces",
    "tracks": "tallymark.service.tracks:Tracks",
    "versus": "tallymark.service.versus:Versus",
    "webhooks": "tallymark.service.webhooks:Webhooks",
}
"""Each subject with its class. A module is imported when its subject is first used: all of them
together take as long as a whole short command."""


def load_resource(name: str) -> type[Resource]:
    """Import the class of a subject."""
    module, _, kind = RESOURCES[name].partition(":")
    found: type[Resource] = getattr(import_module(module), kind)
    return found


def load_resources() -> list[type[Resource]]:
    """Import the classes of all subjects."""
    return [load_resource(name) for name in RESOURCES]


class Resources:
    """One attribute for each subject."""

    if TYPE_CHECKING:
        accounts: Accounts
        agents: Agents
        attempts: Attempts
        audit: Audit
        boards: Boards
        challenges: Challenges
        exports: Exports
        formulas: Formulas
        invitations: Invitations
        jobs: Jobs
        keys: Keys
        limits: Limits
        loads: Loads
        ratings: Ratings
        reports: Reports
        rules: Rules
        runs: Runs
        scores: Scores
        settings: Settings
        tenants: Tenants
        traces: Traces
        tracks: Tracks
        versus: Versus
        webhooks: Webhooks

    def __init__(self, where: Sender | TenantServices, caller: Caller | None = None) -> None:
        self.is_remote = not isinstance(where, TenantServices)
        self._where = where
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        if name not in RESOURCES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made = load_resource(name)(self._where, self._caller)
        self.__dict__[name] = made
        return made

    @classmethod
    def over(
        cls,
        store: Store,
        settings: ServiceSettings | None = None,
        clock: Callable[[], float] = time.time,
        caller: Caller | None = None,
    ) -> Self:
        """Use a store that is open already, as its owner unless something else is given."""
        known = settings or ServiceSettings(own=True)
        return cls(TenantServices(App.over(store), known, clock), caller)


@contextmanager
def open_local(
    db: str | None, tenant: str = "default", settings: ServiceSettings | None = None
) -> Iterator[Resources]:
    """Open the operations over a database, for its owner."""
    with closing(App(db, tenant)) as app:
        services = TenantServices(app, settings or ServiceSettings(own=True))
        with closing(services):
            yield Resources(services)
