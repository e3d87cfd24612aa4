"""Upgrades, backups, checks and pruning of a database, for its operator."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, suggest
from tallymark.service.app import App
from tallymark.service.maintenance_thread import prune
from tallymark.store.retention import KINDS
from tallymark.store.schema import CURRENT

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.store import Store
    from tallymark.store.backups import BackupSummary as BackupSummary  # noqa: PLC0414
    from tallymark.store.backups import Sizes as Sizes  # noqa: PLC0414
    from tallymark.store.checks.findings import CheckReport as CheckReport  # noqa: PLC0414
    from tallymark.store.retention import Pruned
    from tallymark.store.secrets import Rotated as Rotated  # noqa: PLC0414


class Maintenance:
    """A database with all its tenants."""

    def __init__(self, app: App) -> None:
        self._store = app.store

    def upgrade(self) -> tuple[str, str]:
        """Return the database, whose tables are those of this version once it is open, and their
        schema.
        """
        self._store.require()
        return self._store.shown, CURRENT

    def write_backup(self, file: Path, *, keep: int | None) -> BackupSummary:
        """Write a backup; to a folder with a date in its name, where only `keep` of those stay."""
        return self._store.backups.write(file, keep=keep)

    def restore_backup(self, file: Path, *, dry_run: bool) -> BackupSummary:
        """Store all that is in a backup, or only read it to its end."""
        backups = self._store.backups
        return backups.look(file) if dry_run else backups.restore(file)

    def copy(self, to: str) -> dict[str, int]:
        """Copy all rows to another database; return how many, by table."""
        return self._store.backups.copy(to)

    def compact(self) -> Sizes:
        """Give room that is not used any more back to the disk."""
        return self._store.backups.compact()

    def check(self, *, plugins: bool = False) -> CheckReport:
        """Find stored data that contradicts the log; nothing is changed."""
        return check_database(self._store, plugins=plugins)

    def rotate_secret_key(self, *, last: bool = False) -> Rotated:
        """Seal the secrets of all tenants, and what signs for webhooks, by a new key."""
        self._store.require()
        return self._store.rotate_secret_key(last=last)

    def prune(
        self, kinds: Collection[str] = (), tenant: str | None = None, *, dry_run: bool = False
    ) -> Sequence[Pruned]:
        """Remove data past retention, all kinds unless some are named."""
        for kind in kinds:
            if kind not in KINDS:
                near = suggest(kind, KINDS)
                hint = f"did you mean {near!r}?" if near else f"there is {', '.join(KINDS)}"
                raise InvalidInput(f"nothing is pruned that is called {kind!r}", hint=hint)
        self._store.require()
        return prune(
            self._store, time.time(), tenant=tenant, kinds=kinds or KINDS, really=not dry_run
        )


@contextmanager
def open_maintenance(db: str | None, *, upgrade: bool = False) -> Iterator[Maintenance]:
    """Open a database; tables of an older version are refused unless they are to be upgraded."""
    with closing(App(db, upgrade=upgrade)) as app:
        yield Maintenance(app)


def check_database(store: Store, *, plugins: bool = False) -> CheckReport:
    """Check all tenants, with plugins run again if requested."""
    if not plugins:
        return store.check_all()
    from tallymark.service.challenge_cache import ChallengeCache  # noqa: PLC0415 (the sandbox loads with it)

    known: dict[str, ChallengeCache] = {}
    with ExitStack() as left:

        def find(tenant: str, challenge: Challenge) -> Plugin | None:
            if tenant not in known:
                made = ChallengeCache(store.for_tenant(tenant), None, time.time)
                known[tenant] = left.enter_context(closing(made))
            return known[tenant].load_unpaused(challenge)

        return store.check_all(find)
