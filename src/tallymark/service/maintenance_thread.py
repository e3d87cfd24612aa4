"""Maintenance thread: finalises quiet traces, and removes data past retention."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from tallymark.errors import TallymarkError
from tallymark.store.retention import KINDS
from tallymark.store.tenants import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tallymark.service.app import App
    from tallymark.store import Store
    from tallymark.store.retention import Pruned, Pruner

_log = logging.getLogger("tallymark.maintenance")
_PAUSE = 1.0
"""Seconds between passes."""
_PRUNED_EVERY = 300.0
_AT_ONCE = 1_000
_SILENT = 60.0
"""Seconds without progress after which the thread counts as stuck."""


class MaintenanceThread:
    """Finalises and prunes the data of all tenants; several processes may run one."""

    def __init__(self, app: App, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._clock = clock
        self._stopping = threading.Event()
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._look, name="tally-maintenance", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Stop after the current piece of work, and wait at most `seconds`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def is_alive(self) -> bool:
        """True if a pass or a batch ended within the last minute."""
        return self._thread.is_alive() and time.monotonic() - self._looked < _SILENT

    def finalise_traces(self) -> int:
        """Finalise traces past their quiet time; return how many."""
        done = 0
        while not self._stopping.is_set():
            found = self._app.store.traces.finalise(self._clock(), _AT_ONCE)
            self._looked = time.monotonic()
            done += found
            if found < _AT_ONCE:
                break
        return done

    def prune(self) -> None:
        """Remove data past the retention of its tenant."""
        for pruner in open_pruners(self._app.store, self._clock()):
            for kind in KINDS:
                while not self._stopping.is_set() and pruner.remove_some(kind):
                    self._looked = time.monotonic()

    def _look(self) -> None:
        pruned = -_PRUNED_EVERY
        while not self._stopping.wait(_PAUSE):
            try:
                self.finalise_traces()
                if time.monotonic() - pruned >= _PRUNED_EVERY:
                    pruned = time.monotonic()
                    self.prune()
            except TallymarkError as error:  # a database that is away for a while
                _log.warning("maintenance of stored data failed: %s", error)
            except Exception:  # noqa: BLE001 (the thread must survive any error)
                _log.exception("maintenance of stored data failed")
            self._looked = time.monotonic()


def open_pruners(store: Store, now: float, tenant: str | None = None) -> Iterator[Pruner]:
    """Open a pruner for each tenant, or for the one named."""
    known = sorted({DEFAULT, *(each.name for each in store.tenants.all())})
    for name in known if tenant is None else [tenant]:
        yield store.for_tenant(name).open_pruner(now)


def prune(
    store: Store,
    now: float,
    *,
    tenant: str | None = None,
    kinds: Collection[str] = KINDS,
    really: bool = True,
) -> list[Pruned]:
    """Remove data past retention; return what was removed, or would be without `really`."""
    found = []
    for pruner in open_pruners(store, now, tenant):
        for kind in kinds:
            found.append(pruner.measure(kind))
            while really and pruner.remove_some(kind):
                pass
    return found
