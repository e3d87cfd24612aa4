"""How plugins fare: which one keeps crashing and is paused until someone resumes it."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tallymark.sandbox.plugins.call_endings import DEADLY

if TYPE_CHECKING:
    from tallymark.sandbox.plugin_code import PluginCode


@dataclass(frozen=True, slots=True)
class PluginState:
    """How a plugin fares in one sandbox."""

    state: Literal["idle", "warm", "paused"]
    reason: str
    """Why it is paused; empty otherwise."""
    crashes: int
    """Calls in a row that cost their process: crashed, killed at the deadline, out of memory."""
    calls: int


@dataclass(slots=True)
class _CallCounts:
    calls: int = 0
    crashes: int = 0
    paused: str = ""


class Health:
    """Counts the endings of each plugin's calls. Thread-safe."""

    def __init__(self, pause_after: int) -> None:
        self._pause_after = pause_after
        self._records: dict[PluginCode, _CallCounts] = {}
        self._lock = threading.Lock()

    def find_pause(self, code: PluginCode) -> str:
        """Why the plugin is paused; empty when it is not."""
        # Without the lock: every call asks, and looking one thing up cannot see half a change.
        record = self._records.get(code)
        return "" if record is None else record.paused

    def note(
        self, code: PluginCode, stopped: str | None, said: str = "", *, calls: int = 1
    ) -> None:
        """Calls have ended, the last one in this way: None when it gave an answer."""
        with self._lock:
            record = self._records.setdefault(code, _CallCounts())
            record.calls += calls
            if stopped not in DEADLY:
                record.crashes = 0
                return
            record.crashes += 1
            if record.crashes >= self._pause_after:
                record.paused = f"{record.crashes} calls in a row failed; the last: {said}"

    def resume(self, code: PluginCode) -> None:
        """Let it be called again."""
        with self._lock:
            record = self._records.setdefault(code, _CallCounts())
            record.crashes, record.paused = 0, ""

    def state(self, code: PluginCode, *, warm: bool) -> PluginState:
        """What is known of it; `warm` when a guest of it is running."""
        with self._lock:
            record = self._records.get(code, _CallCounts())
            now: Literal["idle", "warm"] = "warm" if warm else "idle"
            state = "paused" if record.paused else now
            return PluginState(state, record.paused, record.crashes, record.calls)
