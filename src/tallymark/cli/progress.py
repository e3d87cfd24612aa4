"""How far a command is, on stderr, when someone is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

ProgressUpdate = Callable[[int, int | None], None]
_PATIENCE = 0.5
"""Seconds: who waits no longer than this wants no bar that flickers."""
_EVERY = 0.1
"""Seconds between two looks at how far it is."""


@contextmanager
def show_progress(what: str) -> Iterator[ProgressUpdate | None]:
    """A bar to be updated with what is done and what there is in all; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _LateBar(what)
    try:
        yield bar.update
    finally:
        bar.stop()


class _LateBar:
    """A bar that comes when something takes long; rich is loaded only then."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Any = None
        self._looked = 0.0
        self._timer = Timer(_PATIENCE, self._start)
        self._timer.daemon = True
        self._timer.start()

    def update(self, done: int, total: int | None) -> None:
        """Moves it; many calls cost little."""
        if self._bar is not None and time.monotonic() - self._looked >= _EVERY:
            self._looked = time.monotonic()
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def stop(self) -> None:
        """Takes it away."""
        self._timer.cancel()
        self._timer.join()
        if self._bar is not None:
            self._bar.stop()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._what, total=None)
        bar.start()
        self._bar = bar
