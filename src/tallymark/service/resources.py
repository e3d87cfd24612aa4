"""All operations by subject, run here for a caller or sent to a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Self, get_type_hints

from tallymark.service.app import App
from tallymark.service.audit import Audit
from tallymark.service.formulas import Formulas
from tallymark.service.jobs import Jobs
from tallymark.service.keys import Accounts, Invitations, Keys, Tenants
from tallymark.service.operations import Resource, Sender
from tallymark.service.reviews import Scores
from tallymark.service.rules import Rules
from tallymark.service.runs import Runs
from tallymark.service.server_limits import Limits
from tallymark.service.settings import ServiceSettings
from tallymark.service.template_values import Settings
from tallymark.service.tenant import TenantServices
from tallymark.service.traces import Traces
from tallymark.service.tracks import Tracks
from tallymark.service.webhooks import Webhooks

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.store import Store


class Resources:
    """One attribute for each subject."""

    accounts: Accounts
    audit: Audit
    formulas: Formulas
    invitations: Invitations
    jobs: Jobs
    keys: Keys
    limits: Limits
    rules: Rules
    runs: Runs
    scores: Scores
    settings: Settings
    tenants: Tenants
    traces: Traces
    tracks: Tracks
    webhooks: Webhooks

    def __init__(self, where: Sender | TenantServices, caller: Caller | None = None) -> None:
        self.is_remote = not isinstance(where, TenantServices)
        for name, kind in RESOURCES.items():
            setattr(self, name, kind(where, caller))

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


RESOURCES: dict[str, type[Resource]] = get_type_hints(Resources)


@contextmanager
def open_local(db: str | None, tenant: str = "default") -> Iterator[Resources]:
    """Open the operations over a database, for its owner."""
    with closing(App(db, tenant)) as app:
        yield Resources(TenantServices(app, ServiceSettings(own=True)))
