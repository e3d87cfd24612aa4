"""`Service`: what one server process holds, for all tenants of one database."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.errors import NotFound, TallymarkError
from tallymark.service.accounts import AccountService
from tallymark.service.app import App
from tallymark.service.fair_threads import FairThreads, FairTurns, name_share
from tallymark.service.kept_pages import MOST_BYTES, MOST_TABLES, Cache
from tallymark.service.limits import TABLE_COST, MemoryBudget, RateLimits
from tallymark.service.live import LiveHub
from tallymark.service.metrics import Metrics
from tallymark.service.own_traces import start_tracing
from tallymark.service.proxy import Proxy
from tallymark.service.readiness import Readiness, measure_disks
from tallymark.service.server_logs import log_request
from tallymark.service.settings import ServiceSettings
from tallymark.service.tenant import TenantServices
from tallymark.service.what_if import WhatIfs
from tallymark.service.workers import Workers
from tallymark.store.statement_limits import limit_statements
from tallymark.watched_work import add_watcher, remove_watcher

if TYPE_CHECKING:
    from tallymark.service.callers import Caller

T = TypeVar("T")

_COUNT_SECONDS = 3.0
"""Whoever reads the metrics does not wait longer for a count of jobs."""


@dataclass(eq=False)
class Service:
    """Opened with the server, closed with it."""

    settings: ServiceSettings
    clock: Callable[[], float] = field(default_factory=lambda: time.time)
    _tenants: dict[str, TenantServices] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop_tracing: Callable[[], None] = field(default=lambda: None)

    @cached_property
    def app(self) -> App:
        """The default tenant's, whose database the others share."""
        return App(self.settings.db, upgrade=self.settings.upgrade)

    @property
    def own(self) -> bool:
        """Whether whoever reaches the server is its owner."""
        return self.settings.own

    @property
    def is_example(self) -> bool:
        """Whether what is served was made up, for anybody to look at."""
        return self.settings.demo is not None

    @property
    def proxy(self) -> Proxy | None:
        """The proxy in front, whose word on users and addresses is taken."""
        return self.settings.proxy

    @cached_property
    def accounts(self) -> AccountService:
        """Keys and who has them."""
        return AccountService(self.app.store, clock=self.clock)

    @cached_property
    def limits(self) -> RateLimits:
        """How often who may ask."""
        return RateLimits(of_tenant=self._find_limits)

    def _find_limits(self, tenant: str) -> Mapping[str, int]:
        try:
            return self.accounts.find_settings(tenant).limits
        except TallymarkError:  # there is no such tenant, which its routes will say
            return {}

    @cached_property
    def metrics(self) -> Metrics:
        """What the server counts of itself."""
        made = Metrics()
        made.watch(
            "tally_writer", "Things to be stored, by what became of them.", self._count_writing
        )
        made.watch("tally_jobs", "Jobs that are not done, by their state.", self._count_jobs)
        made.watch("tally_listeners", "Who listens to boards and runs.", self._count_listeners)
        made.watch("tally_cache_bytes", "What is kept at hand, by what.", self._count_caches)
        made.watch("tally_disk_free_bytes", "Room on the disks.", lambda: dict(measure_disks(self)))
        return made

    def _count_writing(self) -> Mapping[str, float]:
        return self.app.store.count_writing()

    def _count_listeners(self) -> Mapping[str, float]:
        return {"all": self.live.listeners}

    def _count_caches(self) -> Mapping[str, float]:
        what_if = {f"what_if_{where}": size for where, size in self.what_if.nbytes.items()}
        return {**what_if, "pages": self.pages.size}

    def _count_jobs(self) -> Mapping[str, float]:
        found = Counter[str]()
        # A database that is away has its own alarm.
        with suppress(TallymarkError), limit_statements(_COUNT_SECONDS):
            for (_, state), count in self.app.store.job_queue.count().items():
                found[state] += count
        return found

    def note_request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        """Counts a request that was answered, and writes it to the log where that is wanted."""
        self.metrics.note_request(scope, status, seconds)
        log_request(scope, status, seconds)

    @cached_property
    def readiness(self) -> Readiness:
        """Whether the server can do its work."""
        return Readiness(self)

    @cached_property
    def memory(self) -> MemoryBudget:
        """For the bodies of requests that are being served."""
        return MemoryBudget()

    @cached_property
    def threads(self) -> FairThreads:
        """Where requests do what would hold up the event loop."""
        return FairThreads()

    @cached_property
    def bulk_turns(self) -> FairTurns:
        """Whose part of a bulk report goes to the writer next."""
        return FairTurns()

    async def run_in_thread(
        self, caller: Caller, work: Callable[..., T], *given: object, patient: bool = False
    ) -> T:
        """Do what a caller asks for in a thread of their share: see `FairThreads.run`."""
        return await self.threads.run(name_share(caller), work, *given, patient=patient)

    def iterate_in_thread(self, caller: Caller, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """The same for what is streamed."""
        return self.threads.iterate(name_share(caller), chunks)

    @cached_property
    def live(self) -> LiveHub:
        """Who listens to what."""
        return LiveHub(find_ended=self.accounts.find_ended, threads=self.threads)

    @cached_property
    def what_if(self) -> WhatIfs:
        """Boards by other rules."""
        return WhatIfs()

    @cached_property
    def pages(self) -> Cache[bytes]:
        """Pages of boards as they were last answered."""
        return Cache(MOST_BYTES, len)

    @cached_property
    def _tables(self) -> Cache[Any]:
        return Cache(MOST_TABLES, lambda _: 1)

    def find_table(
        self, caller: Caller, key: Hashable, made_of: Hashable, make: Callable[[], T]
    ) -> T:
        """A table that takes long to make, as it was made last if nothing has changed since.

        Whoever has it made is charged for that besides the request.
        """

        def make_for_caller() -> T:
            if not self.own:
                self.limits.check(caller, "read", TABLE_COST)
            return make()

        made: T = self._tables.find_or_make((caller.tenant, key), made_of, make_for_caller)
        return made

    @cached_property
    def workers(self) -> Workers:
        """Who does the jobs here."""
        return Workers(
            self.app,
            self.settings.workers,
            rules=self.settings.rules,
            own=self.settings.own,
            find_competition=lambda tenant: self.tenant(tenant).competition,
            clock=self.clock,
        )

    def open(self) -> None:
        """Makes the database if it is not there, and begins to work."""
        if self.own and not self.app.store.exists:
            return  # whoever only looks makes nothing
        self.app.store.prepare()
        add_watcher(self.metrics.watch_work)
        self._stop_tracing = start_tracing(os.environ)
        self.app.store.start_writer()
        self.app.store.watch_commits(board=self.live.notify, run=self.live.notify_run)
        if self.settings.workers:
            self.workers.start()
        if self.settings.demo is not None:
            self.settings.demo.start(self)

    def tenant(self, name: str) -> TenantServices:
        """A tenant's services, made when first asked for; `NotFound` where there is none."""
        known = self._tenants.get(name)
        if known is None:
            try:
                if name != self.app.tenant:  # which is there before anything is stored
                    self.app.store.for_tenant(name).tenants.settings()
            except TallymarkError:
                # Whoever asks need not know what else there is.
                raise NotFound(f"there is no tenant {name!r}") from None
            with self._lock:
                app = self.app if name == self.app.tenant else self.app.for_tenant(name)
                known = self._tenants.setdefault(
                    name, TenantServices(app, self.settings, self.clock, self)
                )
        return known

    def close(self) -> None:
        """Finishes or hands back what runs, and lets go of everything."""
        self.app.store.end_soon()
        if self.settings.demo is not None:
            self.settings.demo.stop()
        if self.settings.workers:
            self.workers.stop()
        for each in self._tenants.values():
            each.close()
        self.what_if.close()
        self.app.close()
        self._stop_tracing()
        remove_watcher(self.metrics.watch_work)
