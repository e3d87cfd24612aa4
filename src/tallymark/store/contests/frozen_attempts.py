"""Attempts as the public sees them while a board is frozen: as they were at the freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from sqlalchemy import select, text

from tallymark.challenges.attempt import Outcome
from tallymark.store.contests.tables import ACTS, attempt_id, challenges, contest_audit, scorings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt
    from tallymark.store.contests.attempt_rows import ScoreEntry
    from tallymark.store.contests.audit_log import AuditEntry

    Voids: TypeAlias = Mapping[str, float | None]

VOIDED, UNVOIDED = "voided", "unvoided"
TELLING = frozenset({"scored", "failed", "rescored", VOIDED, UNVOIDED})
"""Events of attempts that the public does not hear of while their board is frozen."""


def read_voids(connection: Connection, tenant: str) -> Voids:
    """Attempts voided or unvoided since their board was frozen, with when they were void then.

    By id; None counted at the freeze.
    """
    log = contest_audit.c
    query = (
        select(log.attempt, log.event, log.at, challenges.c.frozen_at)
        .join(challenges, challenges.c.id == log.challenge_id)
        # In the words of the index: otherwise the database reads all entries of attempts.
        .where(log.tenant == tenant, text(f"({ACTS})"), log.event.in_((VOIDED, UNVOIDED)))
        .where(challenges.c.frozen_at.is_not(None))
        .order_by(log.seq)
    )
    then: dict[int, float | None] = {}
    since: set[int] = set()
    for key, event, at, frozen_at in connection.execute(query):
        if at < frozen_at:
            then[key] = at if event == VOIDED else None
        else:
            since.add(key)
    return {attempt_id(key): then.get(key) for key in since}


class RescoredSince(NamedTuple):
    """A challenge whose attempts were rescored after its board was frozen."""

    name: str
    frozen_at: float
    by_formula: bool
    """Then everything but the score is still what it was."""


def read_rescored(connection: Connection, tenant: str) -> dict[int, RescoredSince]:
    """Challenges that were rescored while their board was frozen, by their ids."""
    query = (
        select(challenges.c.id, challenges.c.name, challenges.c.frozen_at, scorings.c.why)
        .join(scorings, scorings.c.challenge_id == challenges.c.id)
        .where(challenges.c.tenant == tenant, challenges.c.frozen_at.is_not(None))
        .where(scorings.c.why.in_(("formula", "rescore")), scorings.c.at >= challenges.c.frozen_at)
    )
    found: dict[int, RescoredSince] = {}
    for key, name, frozen_at, why in connection.execute(query):
        before = found.get(key)
        by_formula = why == "formula" and (before is None or before.by_formula)
        found[key] = RescoredSince(name, frozen_at, by_formula)
    return found


class LaterActs(NamedTuple):
    """Acts of organisers after freezes, which the public does not see yet."""

    voids: Voids
    rejudged: frozenset[str] = frozenset()
    """Challenges of whose earlier outcomes only the history is left."""


def read_later_acts(connection: Connection, tenant: str) -> LaterActs:
    rescored = read_rescored(connection, tenant).values()
    rejudged = frozenset(each.name for each in rescored if not each.by_formula)
    return LaterActs(read_voids(connection, tenant), rejudged)


def hide_later(
    attempt: Attempt,
    frozen_at: float | None,
    history: Callable[[], list[ScoreEntry]],
    later: LaterActs,
) -> Attempt:
    """The attempt as it was at the freeze, without voids and outcomes that came later.

    `frozen_at=None` freezes nothing.
    """
    if frozen_at is None:
        return attempt
    if attempt.id in later.voids:
        attempt = msgspec.structs.replace(attempt, voided_at=later.voids[attempt.id])
    if attempt.outcome is None:
        return attempt
    known = keep_earlier_scores(history(), frozen_at)
    if not known:
        bare = {"scored_at": None, "verified": False, "outcome": None}
        return msgspec.structs.replace(attempt, state="submitted", **bare)
    last, now = known[-1], attempt.outcome
    # By challenge and not by attempt: whether a score changed is hidden too.
    kept = Outcome(score=None) if attempt.challenge in later.rejudged else now
    names = ("score", "result", "error", "origin")
    before = msgspec.structs.replace(kept, **{name: getattr(last, name) for name in names})
    state = "scored" if last.error is None else "failed"
    return msgspec.structs.replace(attempt, state=state, outcome=before)


def keep_earlier_scores(history: list[ScoreEntry], frozen_at: float | None) -> list[ScoreEntry]:
    """Select the scores that were given before the freeze."""
    return [each for each in history if frozen_at is None or each.at < frozen_at]


def keep_earlier_entries(audit: list[AuditEntry], frozen_at: float | None) -> list[AuditEntry]:
    """Leave out later entries that would reveal a score."""
    return [
        each
        for each in audit
        if frozen_at is None or each.at < frozen_at or each.event not in TELLING
    ]
