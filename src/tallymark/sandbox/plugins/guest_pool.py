"""Warm guests: started when needed, lent out one call at a time, ended when idle or worn."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tallymark.errors import WorkFailed
from tallymark.sandbox.plugins.attempt_exchange import NoAnswer
from tallymark.sandbox.plugins.guest_handle import GuestHandle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.plugins.plugin_files import PluginCode

_MOST_IDLE = 32
"""Limit for all plugins together: each guest holds some ten megabytes."""
_MOST_PER_ROOT = max(2, os.cpu_count() or 1)
_Root: TypeAlias = "tuple[Path, str, bool]"


@dataclass(slots=True)
class _Shelf:
    """The guests of one root. Plugins of the same files share them: a guest runs none of it."""

    idle: list[GuestHandle] = field(default_factory=list)
    lent: int = 0


class Pool:
    """Thread-safe. Starting and ending guests happens outside the lock."""

    def __init__(self, backend: str, limits: Limits, *, recycle_after: int, idle_s: float) -> None:
        self._backend, self._limits = backend, limits
        self._recycle_after, self._idle_s = recycle_after, idle_s
        self._shelves: dict[_Root, _Shelf] = {}
        self._lock = threading.RLock()  # entered itself: Ctrl-C could lose a condition locked
        self._changed = threading.Condition(self._lock)
        self._reaper: threading.Thread | None = None
        self._closed = False
        self._closing = threading.Event()

    @contextmanager
    def guest(self, code: PluginCode, *, apart: bool) -> Iterator[GuestHandle]:
        """A guest for the caller alone; it is ended if any exception but `NoAnswer` comes out.

        `apart` for many attempts, each of which its children give a process of its own.
        """
        root = code.root, code.code_hash, apart
        guest = self._lend(code, root)
        reusable = False
        try:
            yield guest
            reusable = True
        except NoAnswer:
            reusable = True
            raise
        finally:
            fresh = guest.calls < self._recycle_after
            self._take_back(root, guest, reusable=reusable and fresh)

    def warm(self, code: PluginCode) -> bool:
        """True if a guest of this plugin is running."""
        with self._lock:
            return any(root[:2] == (code.root, code.code_hash) for root in self._shelves)

    def close(self) -> None:
        """End every guest, once the calls under way have ended."""
        with self._lock:
            self._closed = True
            self._closing.set()
            self._changed.notify_all()
            # A guest that is lent out is closed by who has it: here it could be in a call.
            self._changed.wait_for(lambda: not any(s.lent for s in self._shelves.values()))
            idle = [guest for shelf in self._shelves.values() for guest in shelf.idle]
            self._shelves.clear()
            reaper = self._reaper
        for guest in idle:
            guest.close()
        if reaper is not None:
            reaper.join()

    def _lend(self, code: PluginCode, root: _Root) -> GuestHandle:
        with self._lock:
            while True:
                if self._closed:
                    raise WorkFailed("the sandbox is closed")
                shelf = self._shelves.setdefault(root, _Shelf())
                if shelf.idle or shelf.lent < _MOST_PER_ROOT:
                    break
                self._changed.wait()
            shelf.lent += 1
            if shelf.idle:
                return shelf.idle.pop()
        try:
            return GuestHandle(code, self._backend, self._limits, apart=root[2])
        except BaseException as error:
            self._take_back(root, None, reusable=False)
            if isinstance(error, OSError):  # no process, descriptor, memory or disk to be had
                raise WorkFailed(f"the sandbox cannot be started: {error}") from None
            raise

    def _take_back(self, root: _Root, guest: GuestHandle | None, *, reusable: bool) -> None:
        ended = [] if guest is None else [guest]
        with self._lock:
            shelf = self._shelves[root]
            shelf.lent -= 1
            if guest is not None and reusable and not self._closed:
                guest.used_at = time.monotonic()
                shelf.idle.append(guest)
                ended = self._remove_surplus()
                self._watch()
            self._tidy()
            self._changed.notify_all()
        for each in ended:
            each.close()

    def _remove_surplus(self) -> list[GuestHandle]:
        idle = [
            (guest.used_at, shelf, guest)
            for shelf in self._shelves.values()
            for guest in shelf.idle
        ]
        idle.sort(key=lambda each: each[0])
        for _, shelf, guest in idle[:-_MOST_IDLE]:
            shelf.idle.remove(guest)
        return [guest for _, _, guest in idle[:-_MOST_IDLE]]

    def _tidy(self) -> None:
        for root in [r for r, shelf in self._shelves.items() if not shelf.idle and not shelf.lent]:
            del self._shelves[root]

    def _watch(self) -> None:
        if self._reaper is None:
            self._reaper = threading.Thread(target=self._reap, name="sandbox-reaper", daemon=True)
            self._reaper.start()

    def _reap(self) -> None:
        """End guests that have been idle for long; stop when there are none."""
        left: float | None = self._idle_s
        # Calls do not wake it: they come far more often than anything is left idle.
        while left is not None and not self._closing.wait(left):
            expired, left = self._remove_expired()
            for guest in expired:
                guest.close()

    def _remove_expired(self) -> tuple[list[GuestHandle], float | None]:
        """The guests that are to end, and when to look again: never, if there are no others."""
        with self._lock:
            now = time.monotonic()
            expired = []
            for shelf in self._shelves.values():
                expired += [each for each in shelf.idle if each.used_at + self._idle_s <= now]
                shelf.idle = [each for each in shelf.idle if each.used_at + self._idle_s > now]
            self._tidy()
            if expired:
                return expired, 0.0
            if not self._shelves:
                self._reaper = None
                return [], None
            used = (guest.used_at for shelf in self._shelves.values() for guest in shelf.idle)
            return [], min(used, default=now) + self._idle_s - now
