"""`App`: the one place where settings become a store and the services that use it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tallymark.store import Store, open_store
from tallymark.store.database_address import DEFAULT, find_default
from tallymark.store.database_address import parse_address as parse_address  # noqa: PLC0414 (for doors)

if TYPE_CHECKING:
    from tallymark.runs.ongoing_run import RunKeeper
    from tallymark.runs.run import Run
    from tallymark.service.accounts import AccountService
    from tallymark.service.competition import Competition
    from tallymark.service.suite_runs import RunService


@dataclass(eq=False)
class App:
    """Settings, store and services of a command or server. Each service loads on first use."""

    db: str | None = None
    tenant: str = "default"
    upgrade: bool = False
    """True if older tables are upgraded; otherwise they are refused."""
    _root: App | None = field(default=None, init=False, repr=False)
    """The one that has the database open, where this one shares it."""

    @classmethod
    def over(cls, store: Store) -> App:
        """Use a store that is open already."""
        made = cls(tenant=store.tenant)
        made.store = store
        return made

    @cached_property
    def store(self) -> Store:
        """Opened when first used."""
        where = self.db or os.environ.get("TALLY_DB")
        return open_store(where, tenant=self.tenant, upgrade=self.upgrade)

    @property
    def database(self) -> str:
        """Address of the database, without a password."""
        return self.store.shown

    def require(self) -> None:
        """Refuse a database that is not there, or has other tables than this version."""
        self.store.require()

    def end_soon(self) -> None:
        """Do not wait long for a database that does not answer: the process ends."""
        self.store.end_soon()

    def close(self) -> None:
        """Lets go of the store, if it was used."""
        if "store" in self.__dict__:
            self.store.close()

    def for_tenant(self, tenant: str) -> App:
        """The app of another tenant in the same open database."""
        share = App(self.db, tenant)
        share.store = self.store.for_tenant(tenant)
        share._root = self._root or self
        return share

    @property
    def run_keeper(self) -> RunKeeper:
        """The store for runs of the library."""
        return self.store

    def load_run(self, run: str) -> Run:
        """A stored run. Its results stay in the store and are read while it is open."""
        from tallymark.runs.run import Run  # noqa: PLC0415 (formulas load too)
        from tallymark.store.stored_results import load_results  # noqa: PLC0415

        record = self.store.run(run)
        return Run(record, *load_results(self.store, record))

    def find_run(self, run: str) -> Run:
        """A stored run whose results are counted on first use."""
        from tallymark.runs.run import Run  # noqa: PLC0415 (formulas load too)
        from tallymark.store.stored_results import find_results  # noqa: PLC0415

        record = self.store.run(run)
        return Run(record, find_results(self.store, record))

    @cached_property
    def runs(self) -> RunService:
        """Runs of suites."""
        from tallymark.service.suite_runs import RunService  # noqa: PLC0415 (models and suites load slowly)

        return RunService(self)

    @cached_property
    def accounts(self) -> AccountService:
        """Keys and sessions; shared by tenants, so that all refuse a key that one revokes."""
        from tallymark.service.accounts import AccountService  # noqa: PLC0415 (servers alone need it)

        if self._root is not None:
            return self._root.accounts
        return AccountService(self.store)

    def competition(
        self, *, insecure_local: bool = False, judge_model: str | None = None
    ) -> Competition:
        """Challenges and attempts; to be closed after use."""
        from tallymark.sandbox.policy import choose_policy  # noqa: PLC0415 (as does the sandbox)
        from tallymark.service.competition import Competition  # noqa: PLC0415 (challenges do too)

        policy = choose_policy(insecure_local=True) if insecure_local else None
        return Competition(self.store, policy=policy, judge_model=judge_model)


def find_store_above() -> str | None:
    """Find the default store, if it is that of a folder above."""
    found = find_default()
    return None if found == DEFAULT else found
