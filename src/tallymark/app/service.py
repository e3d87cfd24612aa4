"""`Service`: what one server process holds, for all tenants of one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tallymark.app.accounts import AccountService
from tallymark.app.app import App
from tallymark.app.competition import Competition
from tallymark.app.jobs import JobService
from tallymark.app.limits import RateLimits
from tallymark.app.live import LiveHub
from tallymark.app.what_if import WhatIf
from tallymark.app.workers import Workers

if TYPE_CHECKING:
    from tallymark.sandbox import Policy
    from tallymark.store import Store


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """What an operator may say."""

    db: str | None = None
    workers: int = 2
    """Threads that do jobs in this process; 0 leaves them to `tally worker`."""
    own: bool = False
    """One's own store on loopback: whoever reaches it is its owner, and needs no key."""
    policy: Policy | None = None
    judge_model: str | None = None


class TenantServices:
    """What a server does for one tenant: its store, and the services that keep something warm."""

    def __init__(self, app: App, service: Service) -> None:
        self.app = app
        self.tenant = app.tenant
        self._service = service

    @property
    def store(self) -> Store:
        """What is kept for the tenant."""
        return self.app.store

    @cached_property
    def competition(self) -> Competition:
        """Challenges and attempts; its sandboxes stay warm."""
        settings = self._service.settings
        return Competition(
            self.store,
            policy=settings.policy,
            judge_model=settings.judge_model,
            clock=self._service.clock,
        )

    def close(self) -> None:
        """Ends what was started."""
        if "competition" in self.__dict__:
            self.competition.close()


@dataclass(eq=False)
class Service:
    """Opened with the server, closed with it."""

    settings: ServiceSettings
    clock: Callable[[], float] = time.time
    _tenants: dict[str, TenantServices] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def app(self) -> App:
        """The default tenant's, whose database the others share."""
        return App(self.settings.db)

    @property
    def own(self) -> bool:
        """Whether whoever reaches the server is its owner."""
        return self.settings.own

    @cached_property
    def accounts(self) -> AccountService:
        """Keys and who has them."""
        return AccountService(self.app.store, clock=self.clock)

    @cached_property
    def limits(self) -> RateLimits:
        """How often who may ask."""
        return RateLimits(of_tenant=self._read_rates)

    @cached_property
    def jobs(self) -> JobService:
        """Work that takes longer than a request."""
        return JobService(self.app)

    @cached_property
    def live(self) -> LiveHub:
        """Who listens to what."""
        return LiveHub(self.app.store)

    @cached_property
    def what_if(self) -> WhatIf:
        """Boards by other rules."""
        return WhatIf()

    @cached_property
    def workers(self) -> Workers:
        """Who does the jobs here."""
        return Workers(self.app, self.settings.workers)

    def tenant(self, name: str) -> TenantServices:
        """A tenant's services, made when first asked for; `NotFound` where there is none."""
        known = self._tenants.get(name)
        if known is None:
            self.app.store.tenants.require(name)
            with self._lock:
                app = self.app if name == self.app.tenant else self.app.for_tenant(name)
                known = self._tenants.setdefault(name, TenantServices(app, self))
        return known

    def close(self) -> None:
        """Finishes or hands back what runs, and lets go of everything."""
        for each in self._tenants.values():
            each.close()
        self.app.close()
