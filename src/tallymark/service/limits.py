"""Rate limits (token buckets) by class of routes, and memory budget for request bodies.

There is a bucket for each class of routes and each owner with a role (for each agent of an owner,
or each address without a key). It holds the requests of a minute and refills evenly. Buckets are in
memory, separate in each server: they protect a server and count nothing that must be exact.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from tallymark.errors import Busy, InvalidInput, TooLarge, TooMany, suggest
from tallymark.service.callers import Caller, Role
from tallymark.traces.span_limits import LIMITS

RouteClass = Literal["read", "write", "report", "work", "sign-in"]
ROUTE_CLASSES: tuple[RouteClass, ...] = get_args(RouteClass)
A_MINUTE: dict[RouteClass, dict[Role, int]] = {
    # Boards, runs, attempts, pages.
    "read": {"anonymous": 600, "viewer": 6000, "agent": 6000, "reporter": 6000, "organiser": 12000},
    # Entering, submitting, changing.
    "write": {"anonymous": 30, "viewer": 60, "agent": 600, "reporter": 600, "organiser": 1200},
    # Attempts that a trusted system saw: each counts, also in bulk.
    "report": {"anonymous": 30, "viewer": 60, "agent": 60, "reporter": 60_000, "organiser": 60_000},
    # What costs much for one request: what-if, rescoring, running a suite, exports.
    "work": {"anonymous": 30, "viewer": 120, "agent": 120, "reporter": 120, "organiser": 240},
    # Sign-in attempts, invitations, registration: by address for all callers.
    "sign-in": {"anonymous": 60, "viewer": 60, "agent": 60, "reporter": 60, "organiser": 60},
}
"""Requests a minute. Admins have what organisers have."""
TABLE_COST = 20
"""Reads that making all ratings or the board of a track counts as, about a second of work."""
_MEGABYTE = 1_000_000
MOST_LINES = 100_000
"""Lines of a body in JSON lines."""
Lines = Annotated[bytes, "application/x-ndjson"]
BODIES: Mapping[str, int] = {
    "challenges": 60 * _MEGABYTE,
    "files": 60 * _MEGABYTE,
    "reports": 64 * _MEGABYTE,
    "runs": 100 * _MEGABYTE,
    "submission": 60 * _MEGABYTE,
    "mcp": 60 * _MEGABYTE,
    "answer": 60 * _MEGABYTE,
    "traces": LIMITS.bytes_per_request,
    "others": 2 * _MEGABYTE,
}
"""Bytes of a body, unpacked, by the last part of its address."""
VALUES: Mapping[str, int] = {
    "reports": 2_000_000,
    "runs": 2_000_000,
    "submission": 600_000,
    "mcp": 600_000,
    "traces": 1_000_000,
    "others": 200_000,
}
"""Values of a body in JSON, or messages of one in protobuf, by the last part of its address."""
AGENT_BYTES, AGENT_VALUES = 2_000_000, 200_000
"""Size of an export by an agent's key: spans of one attempt, a part at a time."""
SMALL_BODY = 100_000
"""Bytes of memory for each request outside the budget for large ones."""
_STRANGER = "address "
_MOST_BUCKETS = 100_000
_V6_PREFIX = 64
"""Prefix of an IPv6 address that one customer has; the rest is theirs to choose."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Remaining requests of a limit, for headers and for clients."""

    route_class: RouteClass
    a_minute: int
    remaining: int
    reset_s: float
    """Seconds until all of it is there again."""


class RateLimits:
    """Rate limits of one server. May be used from any thread."""

    def __init__(
        self,
        *,
        of_tenant: Callable[[str], Mapping[str, int]] = lambda _: {},
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`of_tenant` gives the limits that a tenant has of its own, by class of routes."""
        self._of_tenant = of_tenant
        self._clock = clock
        self._buckets: dict[tuple[str, RouteClass], tuple[float, float]] = {}
        """Remaining tokens, and the time of that count."""
        self._lock = threading.Lock()

    def check(self, caller: Caller, route_class: RouteClass, cost: int = 1) -> Allowance:
        """Take tokens from a bucket, or refuse with the time to retry.

        A request that costs more than a full bucket is accepted if the bucket is full.
        """
        most = self.find_limit(caller, route_class)
        name = (_name_bucket(caller, route_class), route_class)
        with self._lock:
            left = self._refill(name, most)
            needed = min(cost, most)
            if left < needed:
                wait = (needed - left) * 60.0 / most
                raise TooMany(
                    f"{most:,} requests a minute are allowed here, and they are used up",
                    hint=f"ask again after {math.ceil(wait)} s",
                    retry_after=wait,
                )
            self._buckets[name] = (left - cost, self._clock())
        return _describe(route_class, most, left - cost)

    def look(self, caller: Caller) -> list[Allowance]:
        """Remaining requests of every limit, without taking any."""
        found = []
        for route_class in ROUTE_CLASSES:
            most = self.find_limit(caller, route_class)
            name = (_name_bucket(caller, route_class), route_class)
            with self._lock:
                found.append(_describe(route_class, most, self._refill(name, most)))
        return found

    def find_limit(self, caller: Caller, route_class: RouteClass) -> int:
        """Requests a minute: of the tenant, of its own or the server's."""
        role: Role = "organiser" if caller.role == "admin" else caller.role
        usual = A_MINUTE[route_class][role]
        # A tenant's own limit is about its keys; strangers have the server's, or less.
        own = self._of_tenant(caller.tenant).get(route_class)
        if own is None:
            return usual
        return min(own, usual) if role == "anonymous" else own

    def _refill(self, name: tuple[str, RouteClass], most: int) -> float:
        """Tokens in a bucket now; a new one is full."""
        left, since = self._buckets.get(name, (float(most), self._clock()))
        if len(self._buckets) >= _MOST_BUCKETS:
            self._drop_full()
        return min(float(most), left + max(0.0, self._clock() - since) * most / 60.0)

    def _drop_full(self) -> None:
        """Drop buckets unused for a minute: they are full, like new ones."""
        now = self._clock()
        kept = {name: each for name, each in self._buckets.items() if now - each[1] < 60.0}
        # All in use within a minute: the eldest half is let off.
        if len(kept) >= _MOST_BUCKETS:
            kept = dict(sorted(kept.items(), key=lambda each: each[1][1])[_MOST_BUCKETS // 2 :])
        self._buckets = kept


class MemoryBudget:
    """Memory budget for the bodies of all requests in progress.

    It is used in the event loop only. One owner has at most half, and all clients without a key
    together a quarter, so that no one blocks the others.
    """

    def __init__(self, most: int = 1_000_000_000) -> None:
        self._left = most
        self._share = most // 2
        self._strangers_share = most // 4
        self._held: dict[str, int] = {}
        self._held_by_strangers = 0

    def hold(self, owner: str, amount: int) -> None:
        """Reserve bytes, or refuse for now."""
        mine = self._held.get(owner, 0) + amount
        of_stranger = amount if owner.startswith(_STRANGER) else 0
        crowd = self._held_by_strangers + of_stranger
        is_crowded = of_stranger and crowd > self._strangers_share
        if amount > self._left or mine > self._share or is_crowded:
            raise Busy(
                "large requests are under way, and there is no memory for another one",
                retry_after=1.0,
                hint="send it again a little later",
            )
        self._held[owner] = mine
        self._held_by_strangers = crowd
        self._left -= amount

    def release(self, owner: str, amount: int) -> None:
        """Gives them back."""
        self._left += amount
        self._held_by_strangers -= amount if owner.startswith(_STRANGER) else 0
        self._held[owner] -= amount
        if not self._held[owner]:
            del self._held[owner]


def narrow_body(scope: Mapping[str, Any], most_bytes: int, most_values: int | None = None) -> None:
    """Lowers the bounds of a body that was not read yet, once it is known what it is for."""
    body = scope.get("tally.body")
    if body is not None:
        body.narrow(most_bytes, most_values)


def name_owner(caller: Caller | None) -> str:
    """Owner of the memory: one person regardless of their keys; without a key, the address."""
    if caller is None:
        return f"{_STRANGER}unknown"
    who = caller.owner or caller.key_id
    return (
        f"{_STRANGER}{group_address(caller.address)}" if who is None else f"{caller.tenant} {who}"
    )


def read_limits(texts: list[str]) -> dict[str, int]:
    """Limits as a person writes them: `report=12000`."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, count = text.partition("=")
        if name not in ROUTE_CLASSES:
            close = suggest(name, ROUTE_CLASSES)
            hint = f"did you mean {close!r}?" if close else f"there is {', '.join(ROUTE_CLASSES)}"
            raise InvalidInput(f"there is no class of routes {name!r}", hint=hint)
        if not (count.isascii() and count.isdigit() and int(count) > 0):
            raise InvalidInput(
                f"{count!r} is no limit of {name}", hint=f"write requests a minute: {name}=600"
            )
        found[name] = int(count)
    return found


def group_address(address: str | None) -> str:
    """The address that quotas are counted for: of IPv6, the network of one customer."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or "unknown"
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found), _V6_PREFIX), strict=False))
    return str(found)


def split_lines(body: bytes) -> list[tuple[int, bytes]]:
    """Return the lines that are not empty, with their numbers."""
    # Counted before anything is split: a few compressed bytes may be millions of line ends.
    if body.count(b"\n") <= 2 * MOST_LINES:
        found = [(n, line) for n, line in enumerate(body.split(b"\n"), 1) if line.strip()]
        if len(found) <= MOST_LINES:
            return found
    raise TooLarge(f"the body has more than {MOST_LINES:,} lines", hint="send it in parts")


def _name_bucket(caller: Caller, route_class: RouteClass) -> str:
    if caller.owner is None or route_class == "sign-in":
        return group_address(caller.address)
    # Not by the key: rotating it would give a new bucket.
    return f"{caller.tenant} {caller.role} {caller.owner} {caller.agent or ''}"


def _describe(route_class: RouteClass, most: int, left: float) -> Allowance:
    return Allowance(route_class, most, max(0, int(left)), (most - left) * 60.0 / most)
