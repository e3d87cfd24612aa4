"""Speed and efficiency: how much of the time, the tokens and the calls allowed is left over.

Only a verified attempt has counts that can be believed; the efficiency of any other is 0.
"""

from __future__ import annotations

from tallymark.dimensions.exact_numbers import MAX_SCORE, clamp_score, require_number
from tallymark.errors import InvalidInput


def speed(used: float, limit: float) -> float:
    """1000 x (1 - used / limit), within 0-1000; both in the same unit, by the server's clock."""
    share = require_number(used, "the time used") / require_number(limit, "the time limit", above=0)
    return float(clamp_score(MAX_SCORE * (1 - share)))


def token_efficiency(used: float | None, allowed: float, *, verified: bool) -> float:
    """1000 x max(0, 1 - tokens used / tokens allowed); 0 when not verified."""
    return _efficiency(used, allowed, "tokens", verified=verified)


def call_efficiency(used: float | None, allowed: float, *, verified: bool) -> float:
    """1000 x max(0, 1 - calls made / calls allowed); 0 when not verified."""
    return _efficiency(used, allowed, "calls", verified=verified)


def _efficiency(used: float | None, allowed: float, what: str, *, verified: bool) -> float:
    budget = require_number(allowed, f"the number of {what} allowed", above=0)
    if not verified:
        return 0.0
    spent = require_number(used, f"the number of {what} used")
    if spent < 0:
        raise InvalidInput(f"the number of {what} used must be 0 or more, not {used}")
    return float(clamp_score(MAX_SCORE * (1 - spent / budget)))
