"""`TraceKeeper`: the thread that settles quiet traces, and removes what is kept long enough."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from tallymark.errors import TallymarkError
from tallymark.store.accounts.tenants import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.app.app import App

_log = logging.getLogger("tallymark.traces")
_PAUSE = 1.0
"""Seconds between looks."""
_REMOVED_EVERY = 300.0
_AT_ONCE = 1_000


class TraceKeeper:
    """Looks after the traces of all tenants; several processes may have one."""

    def __init__(self, app: App, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look, name="tally-traces", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends after what it is doing."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def settle(self) -> int:
        """Settles all that was quiet by now; how many were due."""
        done = 0
        while not self._stopping.is_set():
            found = self._app.store.traces.settle(self._clock(), _AT_ONCE)
            done += found
            if found < _AT_ONCE:
                break
        return done

    def remove_outdated(self) -> int:
        """Removes what tenants no longer keep; how many there were."""
        store = self._app.store
        removed = 0
        for name in {DEFAULT, *(each.name for each in store.tenants.all())}:
            own = store.for_tenant(name)
            settings = own.tenants.settings().traces
            while not self._stopping.is_set():
                found = own.traces.remove_outdated(settings, self._clock(), _AT_ONCE)
                removed += found
                if found < _AT_ONCE:
                    break
        return removed

    def _look(self) -> None:
        removed = -_REMOVED_EVERY
        while not self._stopping.wait(_PAUSE):
            try:
                self.settle()
                if time.monotonic() - removed >= _REMOVED_EVERY:
                    removed = time.monotonic()
                    self.remove_outdated()
            except TallymarkError as error:  # a database that is away for a while
                _log.warning("traces cannot be looked after: %s", error)
            except Exception:  # noqa: BLE001 (the one who looks must go on looking)
                _log.exception("traces cannot be looked after")
