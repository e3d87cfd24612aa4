"""`TableCache`: expensive reads (ratings, boards of tracks), cached by sequence numbers."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 16
LARGE_S = 0.05
"""Processor time of a table that is not made again at each change."""
_SHARE = 10
"""Making a large table takes at most this fraction of the time."""


@dataclass(frozen=True, slots=True)
class _Made:
    value: Any
    made_of: Hashable
    state: Hashable
    spent: float
    until: float
    """It may lag behind its state until then."""


class TableCache:
    """Values by key, each with what it was made of, such as the last sequence numbers.

    Safe to use from several threads. The least recently used value goes first.
    """

    def __init__(
        self,
        most: int = MOST,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._most = most
        self._clock = clock
        self._cpu = cpu
        self._values: OrderedDict[Hashable, _Made] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def find_or_make(
        self, key: Hashable, made_of: Hashable, make: Callable[[], T], state: Hashable = None
    ) -> T:
        """The value for a key; of many threads that need a new one, one makes it for all.

        A value that was large may lag behind `state` for a moment, never behind `made_of`.
        """
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                known = self._values.get(key)
                if (
                    known is not None
                    and known.made_of == made_of
                    and (known.state == state or self._clock() < known.until)
                ):
                    self._values.move_to_end(key)
                    found: T = known.value
                    return found
            began = self._cpu()
            value = make()
            spent = self._cpu() - began
            # The first one may have loaded libraries.
            usual = 0.0 if known is None else min(known.spent, spent)
            lag = usual * _SHARE if usual >= LARGE_S else 0.0
            with self._lock:
                self._values[key] = _Made(value, made_of, state, spent, self._clock() + lag)
                self._values.move_to_end(key)
                while len(self._values) > self._most:
                    oldest, _ = self._values.popitem(last=False)
                    self._making.pop(oldest, None)
            return value
