"""What the public sees of attempts while a board is frozen: as they were known at the freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.attempt import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.challenges.attempt import Attempt
    from tallymark.store.contests.audit_log import AuditEntry
    from tallymark.store.contests.score_rows import ScoreEntry

_TELLING = ("scored", "failed", "rescored")


def hide_later(
    attempt: Attempt, frozen_at: float | None, history: Callable[[], list[ScoreEntry]]
) -> Attempt:
    """The attempt without the outcome that it had only after the freeze; None freezes nothing."""
    if frozen_at is None or attempt.outcome is None:
        return attempt
    known = keep_earlier_scores(history(), frozen_at)
    if not known:
        bare = {"scored_at": None, "verified": False, "outcome": None}
        return msgspec.structs.replace(attempt, state="submitted", **bare)
    last, now = known[-1], attempt.outcome
    if (last.score, last.result, last.error) == (now.score, now.result, now.error):
        return attempt
    # Scored again since: of the score before it, the history keeps this much.
    names = ("score", "result", "error", "origin")
    before = Outcome(**{name: getattr(last, name) for name in names})
    state = "scored" if last.error is None else "failed"
    return msgspec.structs.replace(attempt, state=state, outcome=before)


def keep_earlier_scores(history: list[ScoreEntry], frozen_at: float | None) -> list[ScoreEntry]:
    """The scores that were given before the freeze."""
    return [each for each in history if frozen_at is None or each.at < frozen_at]


def keep_earlier_entries(audit: list[AuditEntry], frozen_at: float | None) -> list[AuditEntry]:
    """What happened, without what would tell a score."""
    return [
        each
        for each in audit
        if frozen_at is None or each.at < frozen_at or each.event not in _TELLING
    ]
