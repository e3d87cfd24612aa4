"""`StopSignal`: how one thread ends what another is doing, whether that waits or not."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from tallymark.runs.ongoing_run import RunEnding

StopReason = Literal["cancelled", "shutdown", "late", "lost"]
"""Reason to stop: a request, the process ends, a time limit, or another worker took over."""
_ENDINGS: dict[StopReason, RunEnding] = {"late": "late"}


class StopSignal:
    """Set once; the first reason counts."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []

    def set(self, reason: StopReason) -> None:
        """Ends what goes on under this signal."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def when_set(self, call: Callable[[], object]) -> None:
        """Calls when it is set, in the thread that sets it, or at once."""
        with self._lock:
            if self.reason is None:
                self._calls.append(call)
                return
        call()

    async def run_until_set(self, work: Coroutine[Any, Any, RunEnding]) -> RunEnding:
        """Result of the work, or that it was stopped: it is cancelled by the signal."""
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def end() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        self.when_set(end)
        try:
            return await task
        except asyncio.CancelledError:
            if self.reason is None or not task.cancelled():
                raise
            return _ENDINGS.get(self.reason, "stopped")
