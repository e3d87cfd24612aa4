"""Services of one tenant: its store, settings and caches."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar, cast

from anyio import to_thread

if TYPE_CHECKING:
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.service.accounts import AccountService
    from tallymark.service.app import App
    from tallymark.service.callers import Caller
    from tallymark.service.competition import Competition
    from tallymark.service.jobs import JobService
    from tallymark.service.limits import Allowance, RouteClass
    from tallymark.service.service import Service
    from tallymark.service.settings import ServiceSettings
    from tallymark.service.trace_intake import TraceIntake
    from tallymark.service.what_if import WhatIfs
    from tallymark.store import Store

T = TypeVar("T")


class TenantServices:
    """Services for one tenant.

    Each is imported when it is first used, so that a command loads only what it needs.
    """

    def __init__(
        self,
        app: App,
        settings: ServiceSettings,
        clock: Callable[[], float] = time.time,
        service: Service | None = None,
    ) -> None:
        """`service` is the server process; None where a command works on its own store."""
        self.app = app
        self.tenant = app.tenant
        self.settings = settings
        self._clock = clock
        self._service = service
        self._tables: dict[Hashable, tuple[Hashable, object]] = {}

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the server process, or of the command."""
        return self._clock if self._service is None else self._service.clock

    @property
    def store(self) -> Store:
        """The tenant's store."""
        return self.app.store

    @property
    def exists(self) -> bool:
        """True if anything was ever stored."""
        return self.store.exists

    def read(self) -> AbstractContextManager[object]:
        """Open one read transaction for all reads inside it, if anything is stored."""
        return self.store.read() if self.exists else nullcontext()

    @property
    def now(self) -> float:
        """By the server's clock."""
        return self.clock()

    @property
    def accounts(self) -> AccountService:
        """Keys and sessions of all tenants."""
        return self.app.accounts if self._service is None else self._service.accounts

    @property
    def has_workers(self) -> bool:
        """True if a server works on the queue here."""
        return self._service is not None

    def list_allowances(self, caller: Caller | None) -> list[Allowance]:
        """List what is left of the caller's rate limits; a command has none."""
        if caller is None or self._service is None:
            return []
        return self._service.limits.look(caller)

    def find_table(
        self,
        caller: Caller | None,
        key: Hashable,
        made_of: Hashable,
        make: Callable[[], T],
        state: Hashable = None,
        **cost: int,
    ) -> T:
        """See `Service.find_table`. Outside a server nothing lags."""
        if self._service is None or caller is None:
            known = self._tables.get(key)
            if known is None or known[0] != (made_of, state):
                known = self._tables[key] = ((made_of, state), make())
            return cast("T", known[1])
        return self._service.find_table(caller, key, made_of, make, state=state, **cost)

    @property
    def what_if(self) -> WhatIfs:
        """Boards by other rules."""
        return self._own_what_if if self._service is None else self._service.what_if

    @cached_property
    def _own_what_if(self) -> WhatIfs:
        from tallymark.service.what_if import WhatIfs  # noqa: PLC0415 (numpy)

        return WhatIfs()

    def charge(self, caller: Caller | None, rate: RouteClass, cost: int) -> None:
        """Count more than the request itself against the caller's rate limit."""
        if caller is not None and self._service is not None:
            self._service.limits.check(caller, rate, cost)

    async def run_in_thread(
        self, caller: Caller | None, work: Callable[..., T], *given: object, patient: bool = False
    ) -> T:
        """See `Service.run_in_thread`; a command has a thread of its own."""
        if caller is None or self._service is None:
            return await to_thread.run_sync(partial(work, *given))
        return await self._service.run_in_thread(caller, work, *given, patient=patient)

    def hide_database(self, text: str) -> str:
        """See `Service.hide_database`; a command's user may know where the database is."""
        return text if self._service is None else self._service.hide_database(text)

    def take_bulk_turn(
        self, caller: Caller | None, *, patient: bool
    ) -> AbstractAsyncContextManager[None]:
        """Wait until a part of a bulk report may go to the writer; a command need not."""
        if caller is None or self._service is None:
            return nullcontext()
        return self._service.take_bulk_turn(caller, patient=patient)

    @cached_property
    def competition(self) -> Competition:
        """Challenges and attempts; its sandboxes stay warm."""
        from tallymark.service.competition import Competition  # noqa: PLC0415

        settings = self.settings
        return Competition(
            self.store,
            policy=settings.policy,
            judge_model=settings.judge_model,
            clock=self.clock,
            find_egress=self.find_egress,
        )

    def find_egress(self) -> EgressPolicy | None:
        """Secrets for models named by a challenge."""
        settings = self.settings
        if settings.own:
            return None  # the owner's own store, on their own machine
        own = () if settings.judge_model is None else (settings.judge_model,)
        return settings.rules.find_egress(self.store, own)

    @cached_property
    def jobs(self) -> JobService:
        """Work that takes longer than a request."""
        from tallymark.service.jobs import JobService  # noqa: PLC0415

        return JobService(self.store)

    @cached_property
    def trace_intake(self) -> TraceIntake:
        """Spans that exporters send."""
        from tallymark.service.trace_intake import TraceIntake  # noqa: PLC0415

        accounts, tenant = self.accounts, self.tenant
        return TraceIntake(
            self.store,
            settings=lambda: accounts.find_settings(tenant).traces,
            clock=self.clock,
        )

    def close(self) -> None:
        """Ends what was started."""
        if "competition" in self.__dict__:
            self.competition.close()
