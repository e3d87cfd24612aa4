"""Services for one tenant: its store, its settings, and what keeps something warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tallymark.models.reach import Reach
    from tallymark.service.accounts import AccountService
    from tallymark.service.app import App
    from tallymark.service.callers import Caller
    from tallymark.service.competition import Competition
    from tallymark.service.jobs import JobService
    from tallymark.service.limits import Allowance
    from tallymark.service.service import Service
    from tallymark.service.settings import ServiceSettings
    from tallymark.service.trace_intake import TraceIntake
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

    @property
    def clock(self) -> Callable[[], float]:
        """The clock of the server process, or of the command."""
        return self._clock if self._service is None else self._service.clock

    @property
    def store(self) -> Store:
        """What is kept for the tenant."""
        return self.app.store

    @property
    def now(self) -> float:
        """By the server's clock."""
        return self.clock()

    @property
    def accounts(self) -> AccountService:
        """Keys and sessions of all tenants."""
        return self.app.accounts if self._service is None else self._service.accounts

    def list_allowances(self, caller: Caller | None) -> list[Allowance]:
        """List what is left of the caller's rate limits; a command has none."""
        if caller is None or self._service is None:
            return []
        return self._service.limits.look(caller)

    def find_table(
        self, caller: Caller | None, key: Hashable, made_of: Hashable, make: Callable[[], T]
    ) -> T:
        """See `Service.find_table`."""
        if self._service is None or caller is None:
            return make()
        return self._service.find_table(caller, key, made_of, make)

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
            find_reach=self.find_reach,
        )

    def find_reach(self) -> Reach | None:
        """What models may use that a challenge names."""
        settings = self.settings
        if settings.own:
            return None  # the owner's own store, on their own machine
        own = () if settings.judge_model is None else (settings.judge_model,)
        return settings.rules.find_reach(self.store, own)

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
