"""`DeliveryPauses`: a circuit breaker for each address that webhooks are sent to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

LONGEST_S = 300.0
PROBE_S = 10.0
"""Seconds after which others retry while one message tries the address again."""
_MOST_KNOWN = 10_000


@dataclass(slots=True)
class _Failing:
    failures: int
    until: float


class DeliveryPauses:
    """Which addresses failed lately; each process of workers learns it for itself.

    A receiver that hangs would otherwise hold a thread for each message that waits for it. After a
    pause one message tries it again, and the others follow once that was accepted.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: dict[Hashable, _Failing] = {}

    def begin(self, address: Hashable) -> float:
        """Seconds to wait before sending to an address; with 0 the message is sent now."""
        with self._lock:
            found, now = self._failing.get(address), self._clock()
            if found is None:
                return 0.0
            if found.until > now:
                return found.until - now
            found.until = now + PROBE_S
            return 0.0

    def end(self, address: Hashable, *, accepted: bool) -> None:
        """Note the result of sending: 2, 4, 8 s of pause after failures, up to five minutes."""
        with self._lock:
            found = self._failing.pop(address, None)
            if accepted:
                return
            failures = 1 if found is None else found.failures + 1
            pause = min(LONGEST_S, 2.0 ** min(failures, 20))
            self._failing[address] = _Failing(failures, self._clock() + pause)
            if len(self._failing) > _MOST_KNOWN:
                self._failing.pop(next(iter(self._failing)))

    def __len__(self) -> int:
        """Number of failing addresses."""
        return len(self._failing)
