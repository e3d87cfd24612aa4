"""Pages and tables as they were made last, for as long as they are still right."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_BYTES = 32 * 2**20
MOST_TABLES = 16
_MAKERS = 64
"""How many values can be made at once, each by one while others who want it wait."""


class Cache(Generic[T]):
    """Values by what was asked, each with a tag of what it was made of.

    Safe to use from several threads. What was not asked for of late goes first.
    """

    def __init__(self, most: int, measure: Callable[[T], int]) -> None:
        """Keeps values whose sizes, as `measure` says, add up to at most `most`."""
        self._most = most
        self._measure = measure
        self._values: OrderedDict[Hashable, tuple[Hashable, T]] = OrderedDict()
        self._lock = threading.Lock()
        self._making = [threading.Lock() for _ in range(_MAKERS)]
        self.size = 0

    def find(self, key: Hashable, made_of: Hashable) -> T | None:
        """The value, unless it was made of something else."""
        with self._lock:
            known = self._values.get(key)
            if known is None or known[0] != made_of:
                return None
            self._values.move_to_end(key)
            return known[1]

    def find_or_make(self, key: Hashable, made_of: Hashable, make: Callable[[], T]) -> T:
        """The value; of many who want one that is not there, one makes it for all."""
        found = self.find(key, made_of)
        if found is None:
            with self._making[hash(key) % _MAKERS]:
                found = self.find(key, made_of)
                if found is None:
                    found = make()
                    self.keep(key, made_of, found)
        return found

    def keep(self, key: Hashable, made_of: Hashable, value: T) -> None:
        """Keeps it in the place of the one before."""
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = (made_of, value)
            self.size += self._measure(value)
            if before is not None:
                self.size -= self._measure(before[1])
            while self.size > self._most:
                _, (_, oldest) = self._values.popitem(last=False)
                self.size -= self._measure(oldest)
