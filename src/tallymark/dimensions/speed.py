"""`speed`: time efficiency relative to the time limit."""

from __future__ import annotations

from tallymark.dimensions.exact import MAX_SCORE, clamped, demand


def speed(used: float, limit: float) -> float:
    """1000 x (1 - used / limit), within 0-1000; both in the same unit, by the server's clock."""
    share = demand(used, "the time used") / demand(limit, "the time limit", above=0)
    return float(clamped(MAX_SCORE * (1 - share)))
