"""Changes of attempts as items: each is made when a request arrives, and applied in a batch.

An item carries everything that applying it needs, its actor included: it is applied in another
thread, together with the items of others. See docs/decisions/0032-group-commit.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from tallymark.store.contests.audit_log import Actor, find_actor
from tallymark.store.idempotency import IdempotentRequest

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.contests.challenges import StoredChallenge


class Verdict(NamedTuple):
    """Evaluation and outcome of an attempt."""

    evaluation: Evaluation
    outcome: Outcome
    verified: bool = False


Judge: TypeAlias = Callable[["Attempt", "StoredChallenge"], Verdict | None]
"""The verdict on a reported attempt by the current rule; None if there is none yet."""


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    subject: ClassVar[str] = "attempts"

    tenant: str
    at: float
    """By the server's clock, when it came."""
    actor: Actor | None = msgspec.field(default_factory=find_actor)


class Enter(_Item, frozen=True, kw_only=True):
    """Start an attempt, or return the agent's open one."""

    challenge: str
    agent: str
    seed: int
    memoryless: bool = False
    request: IdempotentRequest | None = None


class Submit(_Item, frozen=True, kw_only=True):
    """Take an agent's answer, once."""

    attempt: str
    agent: str
    texts: dict[str, Any]
    """See `attempt_rows.make_payload_row`."""
    request: IdempotentRequest | None = None
    known: StoredAttempt | None = None
    """The attempt as read before. An open one is not read again, and changed only if still open."""


class Report(_Item, frozen=True, kw_only=True):
    """Enter and submit at once, and score if `judge` can."""

    challenge: str
    agent: str
    texts: dict[str, Any]
    request: IdempotentRequest
    check: Callable[[Challenge], None] | None = None
    """Refuses what the challenge, as it is by now, does not take."""
    judge: Judge | None = None
    """Called with the challenge locked, while all others wait: it must be fast and without effects.
    None, or any exception, leaves the attempt submitted."""


class Finish(_Item, frozen=True, kw_only=True):
    """Score a submitted attempt once; the answer is the attempt, or False if it was scored."""

    attempt: str
    verdict: Verdict | Callable[[StoredChallenge], Verdict]
    """Given, or computed with the challenge locked, while all others wait."""
    revision: int | None = None
    """Revision of the rule that gave the verdict; None if that need not be checked."""
    known: StoredAttempt | None = None
    """The attempt as read before, which saves looking up its challenge and agent."""


class Withdraw(_Item, frozen=True, kw_only=True):
    """End an agent's open attempt."""

    attempt: str
    agent: str
    reason: str | None = None


class Expire(_Item, frozen=True, kw_only=True):
    """End up to `most` expired attempts; the answer is their number."""

    most: int


class Wait(_Item, frozen=True, kw_only=True):
    """Store why the server could not score a submitted attempt yet."""

    attempt: str
    reason: str
    hidden: str | None = None


Item: TypeAlias = Enter | Submit | Report | Finish | Withdraw | Expire | Wait
Answer: TypeAlias = "Attempt | bool | int | None"
