"""`Service`: what one server process holds, for all tenants of one database."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.errors import NotFound, TallymarkError
from tallymark.importing import find_version
from tallymark.instrumentation import add_watcher, remove_watcher
from tallymark.service.accounts import AccountService
from tallymark.service.app import App
from tallymark.service.fair_threads import (
    MOST_BULKS_WAITING,
    FairThreads,
    FairTurns,
    name_share,
)
from tallymark.service.limits import TABLE_COST, MemoryBudget, RateLimits
from tallymark.service.live import LiveHub
from tallymark.service.metrics import Gauge, Metrics
from tallymark.service.proxy import Proxy
from tallymark.service.readiness import Readiness, measure_disks
from tallymark.service.server_logs import log_request
from tallymark.service.settings import ServiceSettings
from tallymark.service.table_cache import TableCache
from tallymark.service.telemetry import start_tracing
from tallymark.service.tenant import TenantServices
from tallymark.service.what_if import WhatIfs
from tallymark.service.workers import Workers
from tallymark.store.engines import limit_statements
from tallymark.store.schema import CURRENT

if TYPE_CHECKING:
    from tallymark.service.callers import Caller

T = TypeVar("T")

_MOST_BULKS = 16
"""Parts of bulk reports at once, of all owners."""
_COUNT_SECONDS = 2.0
"""Maximum seconds that a metrics request waits for a count of jobs."""


@dataclass(eq=False)
class Service:
    """Opened with the server, closed with it."""

    settings: ServiceSettings
    clock: Callable[[], float] = field(default_factory=lambda: time.time)
    _tenants: dict[str, TenantServices] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop_tracing: Callable[[], None] = field(default=lambda: None)
    is_ending: bool = False
    """True if the process was asked to stop."""
    _stopper: threading.Thread | None = None

    @cached_property
    def app(self) -> App:
        """The default tenant's, whose database the others share."""
        return App(self.settings.db, upgrade=self.settings.upgrade)

    @property
    def own(self) -> bool:
        """True if anyone who reaches the server is its owner."""
        return self.settings.own

    @property
    def is_example(self) -> bool:
        """True for a demo with generated data."""
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
        """Rate limits."""
        return RateLimits(of_tenant=self._find_limits)

    def _find_limits(self, tenant: str) -> Mapping[str, int]:
        try:
            return self.accounts.find_settings(tenant).limits
        except TallymarkError:  # an unknown tenant, which its routes report
            return {}

    @cached_property
    def metrics(self) -> Metrics:
        """Metrics of the server."""
        made = Metrics()
        made.watch(self._read_process)
        made.watch(self._read_database)
        return made

    def _read_process(self) -> Iterator[Gauge]:
        """Services without a database."""

        def gauge(name: str, words: str, values: Mapping[str, float]) -> Gauge:
            return Gauge(name, words, ("kind",), {(kind,): each for kind, each in values.items()})

        store = self.app.store
        about = ("version", "schema", "database")
        told = (find_version("tallymark"), CURRENT, "sqlite" if store.folder else "postgresql")
        yield Gauge("tally_info", "What this server is.", about, {told: 1})
        waiting = "Things to be stored, by what became of them."
        yield gauge("tally_writer", waiting, store.count_writing())
        connections = "Connections to the database, by what they do."
        yield gauge("tally_database_connections", connections, store.count_connections())
        yield gauge("tally_threads", "Requests that need a thread.", self.threads.count())
        yield gauge(
            "tally_listeners", "Listeners to boards and runs.", {"all": self.live.listeners}
        )
        yield gauge("tally_cache_bytes", "Caches in memory.", {"what_if": self.what_if.nbytes})
        yield gauge("tally_disk_free_bytes", "Room on the disks.", dict(measure_disks(self)))
        paused = "Addresses of webhooks that failed lately."
        yield gauge("tally_paused_addresses", paused, {"webhook": len(self.workers.pauses)})

    def _read_database(self) -> Iterator[Gauge]:
        # A database that is away has its own alarm.
        with suppress(TallymarkError), limit_statements(_COUNT_SECONDS):
            queue = self.app.store.job_queue
            counts, ages = queue.count(), queue.find_ages()
            both = ("kind", "state")
            yield Gauge("tally_jobs", "Jobs that are not done.", both, counts)
            words = "Seconds since the oldest job that is not done was queued."
            oldest = {(kind,): oldest for kind, (oldest, _) in ages.items()}
            yield Gauge("tally_job_oldest_seconds", words, ("kind",), oldest)
            words = "Seconds for which the oldest job that may begin waits for a worker."
            waiting = {(kind,): waiting for kind, (_, waiting) in ages.items()}
            yield Gauge("tally_job_waiting_seconds", words, ("kind",), waiting)
            words = "Seconds for which the oldest trace waits for its rule."
            delay = {(): queue.find_rule_delay(self.clock())}
            yield Gauge("tally_rule_delay_seconds", words, (), delay)

    def note_request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        """Counts a request that was answered, and writes it to the log where that is wanted."""
        self.metrics.note_request(scope, status, seconds)
        log_request(scope, status, seconds)

    @cached_property
    def readiness(self) -> Readiness:
        """Readiness checks."""
        return Readiness(self)

    @cached_property
    def memory(self) -> MemoryBudget:
        """For the bodies of requests that are being served."""
        return MemoryBudget()

    @cached_property
    def threads(self) -> FairThreads:
        """Threads for requests that would block the event loop."""
        return FairThreads()

    @cached_property
    def bulk_turns(self) -> FairTurns:
        """Turns of owners in bulk reports; most threads are for others."""
        return FairTurns(_MOST_BULKS, most_waiting=MOST_BULKS_WAITING)

    def take_bulk_turn(self, caller: Caller, *, patient: bool) -> AbstractAsyncContextManager[None]:
        """Wait for the caller's turn among bulk reports: see `FairTurns.take`."""
        return self.bulk_turns.take(name_share(caller), patient=patient)

    async def run_in_thread(
        self, caller: Caller, work: Callable[..., T], *given: object, patient: bool = False
    ) -> T:
        """Do what a caller asks for in a thread of their share: see `FairThreads.run`."""
        return await self.threads.run(name_share(caller), work, *given, patient=patient)

    def iterate_in_thread(self, caller: Caller, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Threads for streamed responses."""
        return self.threads.iterate(name_share(caller), chunks)

    @cached_property
    def live(self) -> LiveHub:
        """Event listeners."""
        return LiveHub(find_ended=self.accounts.find_ended, threads=self.threads)

    @cached_property
    def what_if(self) -> WhatIfs:
        """Boards by other rules."""
        return WhatIfs()

    @cached_property
    def _tables(self) -> TableCache:
        return TableCache()

    def find_table(
        self,
        caller: Caller,
        key: Hashable,
        made_of: Hashable,
        make: Callable[[], T],
        cost: int = TABLE_COST,
        state: Hashable = None,
    ) -> T:
        """A cached table, made again when its inputs change.

        A large one may lag behind `state` for a moment (see `TableCache`). Making it counts
        against the caller's rate limit.
        """

        def make_for_caller() -> T:
            if cost and not self.own:
                self.limits.check(caller, "read", cost)
            return make()

        known = (caller.tenant, key)
        made: T = self._tables.find_or_make(known, made_of, make_for_caller, state)
        return made

    @cached_property
    def workers(self) -> Workers:
        """Workers of this process."""
        return Workers(
            self.app,
            self.settings.workers,
            rules=self.settings.rules,
            own=self.settings.own,
            find_competition=lambda tenant: self.tenant(tenant).competition,
            clock=self.clock,
        )

    def open(self, *, create: bool = False) -> None:
        """Start workers. A server creates its database; an owner's only with `create`."""
        if self.own and not create and not self.app.store.exists:
            return
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
        """A tenant's services, made on first use; `NotFound` for an unknown tenant."""
        known = self._tenants.get(name)
        if known is None:
            try:
                if name != self.app.tenant:  # which is there before anything is stored
                    self.app.store.for_tenant(name).tenants.settings()
            except TallymarkError:
                # Do not reveal which other tenants exist.
                raise NotFound(f"there is no tenant {name!r}") from None
            with self._lock:
                app = self.app if name == self.app.tenant else self.app.for_tenant(name)
                known = self._tenants.setdefault(
                    name, TenantServices(app, self.settings, self.clock, self)
                )
        return known

    def hide_database(self, text: str) -> str:
        """Leave out where the database is, which only its operator may know."""
        shown = self.app.database
        return text.replace(f"{shown}.key", "key file").replace(shown, "the database")

    def stop_soon(self) -> None:
        """End streams, take no more jobs, and limit waiting for the database.

        A signal handler may call it.
        """
        self.is_ending = True
        self.live.end()
        self.workers.stop_taking()
        self.app.end_soon()

    def stop_waiting(self) -> None:
        """Answer those who wait for a job: no worker takes one any more, and jobs end meanwhile."""
        self.app.store.jobs.wakeups.stop()
        if self.settings.workers:
            self._stopper = threading.Thread(target=self.workers.stop, name="tally-stop")
            self._stopper.start()

    def close(self) -> None:
        """Finishes or hands back what runs, and lets go of everything."""
        self.app.store.end_soon()
        if self.settings.demo is not None:
            self.settings.demo.stop()
        if self._stopper is not None:
            self._stopper.join()
        elif self.settings.workers:
            self.workers.stop()
        for each in self._tenants.values():
            each.close()
        self.app.close()
        self._stop_tracing()
        remove_watcher(self.metrics.watch_work)
