"""Pages and tables as they were made last, for as long as they are still right."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

MOST_BYTES = 32 * 2**20
MOST_TABLES = 16
_MAKERS = 64
"""How many pages can be made at once, each by one while others who want it wait."""


class KeptPages:
    """Encoded pages by what was asked, each with the tag of what it was made of.

    Safe to use from several threads. What was not asked for of late goes first.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pages: OrderedDict[Hashable, tuple[str, bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._making = [threading.Lock() for _ in range(_MAKERS)]
        self.nbytes = 0

    def find(self, key: Hashable, etag: str) -> bytes | None:
        """The page, unless it was made of something else."""
        with self._lock:
            known = self._pages.get(key)
            if known is None or known[0] != etag:
                return None
            self._pages.move_to_end(key)
            return known[1]

    def find_or_make(self, key: Hashable, etag: str, make: Callable[[], bytes]) -> bytes:
        """The page; of many who want one that is not there, one makes it for all."""
        found = self.find(key, etag)
        if found is None:
            with self._making[hash(key) % _MAKERS]:
                found = self.find(key, etag)
                if found is None:
                    found = make()
                    self.keep(key, etag, found)
        return found

    def keep(self, key: Hashable, etag: str, body: bytes) -> None:
        """Keeps it in the place of the one before."""
        with self._lock:
            _, before = self._pages.pop(key, ("", b""))
            self._pages[key] = (etag, body)
            self.nbytes += len(body) - len(before)
            while self.nbytes > self._most_bytes:
                _, (_, oldest) = self._pages.popitem(last=False)
                self.nbytes -= len(oldest)


class KeptTables:
    """Values that take long to make, such as all ratings, each with what it was made of.

    Safe to use from several threads. What was not asked for of late goes first.
    """

    def __init__(self, most: int = MOST_TABLES) -> None:
        self._most = most
        self._tables: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._making = [threading.Lock() for _ in range(_MAKERS)]

    def find_or_make(self, key: Hashable, made_of: Hashable, make: Callable[[], T]) -> T:
        """The value; of many who want one that is not there, one makes it for all."""
        with self._making[hash(key) % _MAKERS]:
            with self._lock:
                known, found = self._tables.get(key, (None, None))
            if known != made_of:
                found = make()
            with self._lock:
                self._tables[key] = (made_of, found)
                self._tables.move_to_end(key)
                if len(self._tables) > self._most:
                    self._tables.popitem(last=False)
        made: T = found
        return made
