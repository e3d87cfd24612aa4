"""Reviews of judged cases by two sample readers, who mostly agree with the judge."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallymark.runs.reviews import FAIL, PASS, CaseKey, GivenScore
from tallymark.service.resources import Resources
from tallymark.store.contests.audit_log import Actor, act_as

if TYPE_CHECKING:
    from tallymark.service.reviews import ReviewCase
    from tallymark.store import Store

_READERS = {"sample-reader": (230, 225), "sample-editor": (150, 205)}
"""Of 256 cases: how many each reviewer reads, and how often they agree with the judge."""
_WORDS = {
    PASS: ("Short, but it answers.", "Kind enough for me."),
    FAIL: ("Polite, and still no answer.", "I would not send this to anybody."),
}
_WAITING = 8
"""Cases without a review."""


def review_past(store: Store, now: float) -> None:
    """Give verdicts of each reader, a minute apart, with a reason where they differ."""
    given = 0
    cases = Resources.over(store).scores.queue("unseen", limit=100).items[_WAITING:]
    for nth, case in enumerate(cases):
        for author, shares in _READERS.items():
            verdict = _draw_verdict(case, nth, author, shares)
            if verdict is not None:
                given += 1
                key = CaseKey(case.run, case.case, case.epoch)
                with act_as(Actor(author)):
                    store.reviews.give(key, author, verdict, at=now - 7200 + 60 * given)


def _draw_verdict(
    case: ReviewCase, nth: int, author: str, shares: tuple[int, int]
) -> GivenScore | None:
    """Draw by a hash of author and number, as the ids of runs are others each time."""
    looks, agrees = shares
    luck = hashlib.sha256(f"{author} {nth}".encode()).digest()
    if case.judge is None or luck[0] >= looks:
        return None
    if luck[1] < agrees:
        return GivenScore(label=case.judge)
    other = FAIL if case.judge == PASS else PASS
    return GivenScore(label=other, comment=_WORDS[other][luck[2] % 2])
