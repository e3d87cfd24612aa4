"""`TableCache`: expensive reads (ratings, boards of tracks), cached by sequence numbers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 16


class TableCache:
    """Values by key, each with what it was made of, such as the last sequence numbers.

    Safe to use from several threads. The least recently used value goes first.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def find_or_make(self, key: Hashable, made_of: Hashable, make: Callable[[], T]) -> T:
        """The value for a key; of many threads that need a new one, one makes it for all."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                known = self._values.get(key)
                if known is not None and known[0] == made_of:
                    self._values.move_to_end(key)
                    found: T = known[1]
                    return found
            value = make()
            with self._lock:
                self._values[key] = (made_of, value)
                self._values.move_to_end(key)
                while len(self._values) > self._most:
                    oldest, _ = self._values.popitem(last=False)
                    self._making.pop(oldest, None)
            return value
