"""What two sample readers say of judged cases: mostly what the judge says, and sometimes not."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallymark.service.callers import Caller
from tallymark.service.reviews import ReviewedCase, ReviewService
from tallymark.store.actors import act_as
from tallymark.store.reviews.reviews import FAIL, PASS, VERDICT, GivenScore

if TYPE_CHECKING:
    from tallymark.store import Store

_READERS = {"sample-reader": (230, 225), "sample-editor": (150, 205)}
"""Of 256 cases, how many each looks at, and of how many it says what the judge says."""
_WORDS = {
    PASS: ("Short, but it answers.", "Kind enough for me."),
    FAIL: ("Polite, and still no answer.", "I would not send this to anybody."),
}
_WAITING = 8
"""Cases that nobody has looked at."""


def review_past(store: Store, now: float) -> None:
    """Each reader gives verdicts, a minute apart, with a word of why where it differs."""
    said = 0
    for case in ReviewService(store).read_unseen(limit=100)[_WAITING:]:
        for author, shares in _READERS.items():
            given = _draw_verdict(case, author, shares)
            if given is not None:
                said += 1
                at = now - 7200 + 60 * said
                reviews = ReviewService(store, lambda at=at: at)  # type: ignore[misc]
                caller = Caller("default", "reporter", author, owner=author)
                with act_as(caller.actor):
                    reviews.give(caller, case.key, given)


def _draw_verdict(case: ReviewedCase, author: str, shares: tuple[int, int]) -> GivenScore | None:
    """By a hash of who and what."""
    looks, agrees = shares
    luck = hashlib.sha256(f"{author} {case.key}".encode()).digest()
    judged = case.judge_word(VERDICT)
    if judged is None or luck[0] >= looks:
        return None
    if luck[1] < agrees:
        return GivenScore(label=judged)
    other = FAIL if judged == PASS else PASS
    return GivenScore(label=other, comment=_WORDS[other][luck[2] % 2])
