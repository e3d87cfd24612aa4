"""`Arena`: a versus challenge from submission to verdicts and standings.

The store enforces the rules when submissions race: each pairing is made once, with the submission
that completes it, and each verdict is given once. Judging happens between transactions: a process
that is killed there leaves verdicts pending, and `settle` judges them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tallymark.challenges.challenge import Challenge
from tallymark.challenges.evaluators.submission_intake import receive_submission
from tallymark.challenges.versus.judges import Judge
from tallymark.challenges.versus.pairings import (
    BreachVerdict,
    Meeting,
    Ruling,
    Side,
    SideSubmission,
    require_versus,
)
from tallymark.challenges.versus.standings import VersusStanding, VersusTally, versus_standings
from tallymark.errors import InvalidInput

AT_ONCE = 200
"""Pending verdicts, with the failed ones if requested, oldest first.

        All, or those of one submission; none with a disqualified player, or between two agents of
        one owner.
        """


class VersusStore(Protocol):
    """Storage of an arena; `store.versus` implements it."""

    def submit(
        self, challenge: str, player: str, side: Side, content: Any, *, at: float
    ) -> SideSubmission:
        """Stores a submission with a pending verdict for each pairing and category it makes.

        The content of the player's newest on that side again changes nothing.
        """
        ...

    def content(self, submission: int) -> Any:
        """The submission."""
        ...

    def verdicts(self, challenge: str, *, submission: int | None = None) -> list[BreachVerdict]:
        """All verdicts, or those of one submission, in the order in which they were made."""
        ...

    def unjudged(
        self,
        challenge: str,
        *,
        failed: bool,
        limit: int | None = None,
        submission: int | None = None,
    ) -> list[BreachVerdict]:
        """Verdicts that are pending, the failed ones too if asked for, oldest first.

        All, or those of one submission; none with a disqualified player, or of one owner's two.
        """
        ...

    def suspects(self, challenge: str) -> set[int]:
        """The submissions that met where the judge failed."""
        ...

    def rule(
        self, rulings: Sequence[tuple[BreachVerdict, Ruling]], *, judge: str, at: float
    ) -> list[bool]:
        """Stores rulings, each unless its verdict is judged already: then it is False."""
        ...

    def tallies(self, challenge: str, *, before: float | None = None) -> list[VersusTally]:
        """Verdicts between players' newest submissions, counted; `before` as they stood then."""
        ...


class Arena:
    """One versus challenge being played."""

    def __init__(
        self,
        store: VersusStore,
        challenge: Challenge,
        judge: Judge,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        require_versus(challenge)
        self.challenge = challenge
        self._store = store
        self._judge = judge
        self._clock = clock

    def submit(
        self, player: str, side: Side, content: Any
    ) -> tuple[SideSubmission, list[BreachVerdict]]:
        """Takes an attack or a defence, and judges every pairing that it makes."""
        submission = self.take(player, side, content)
        name = self.challenge.name
        self._settle(self._store.unjudged(name, failed=False, submission=submission.id))
        return submission, self._store.verdicts(name, submission=submission.id)

    def take(self, player: str, side: Side, content: Any) -> SideSubmission:
        """Store a submission with its pairings; nothing is judged."""
        received = receive_submission(content, self.challenge.submission)
        if received.refused is not None:
            raise InvalidInput(received.refused)
        name = self.challenge.name
        return self._store.submit(name, player, side, received.answer, at=self._clock())

    def settle(self, *, again: bool = False) -> int:
        """Judge pending verdicts, and failed ones with `again`; return the number judged."""
        judged = 0
        tried: set[tuple[int, int, str]] = set()
        while True:
            # Those that fail again are still unjudged, so those tried are asked for on top, and the
            # loop ends when nothing else comes.
            found = self._store.unjudged(
                self.challenge.name, failed=again, limit=AT_ONCE + len(tried)
            )
            new = [each for each in found if (each.red, each.blue, each.category) not in tried]
            if not new:
                return judged
            tried |= {(each.red, each.blue, each.category) for each in new}
            judged += self._settle(new)

    def list_failed(self, limit: int = 20) -> list[BreachVerdict]:
        """Some of what a judge tried and failed to judge."""
        left = self._store.unjudged(self.challenge.name, failed=True, limit=limit)
        return [each for each in left if each.error is not None]

    def standings(self, side: Side | None = None, *, public: bool = True) -> list[VersusStanding]:
        """The board of a side or of all players; the public's stops at the freeze."""
        freeze = self.challenge.freezes_at
        frozen = public and freeze is not None and self._clock() >= freeze
        before = freeze if frozen else None
        return versus_standings(self._store.tallies(self.challenge.name, before=before), side)

    def _settle(self, verdicts: Sequence[BreachVerdict]) -> int:
        """Judge submissions with a clean record first, and separately from the others.

        So one that keeps crashing the judge delays no other verdict.
        """
        suspects = self._store.suspects(self.challenge.name) if verdicts else set()
        clean = [each for each in verdicts if suspects.isdisjoint((each.red, each.blue))]
        others = [each for each in verdicts if not suspects.isdisjoint((each.red, each.blue))]
        return self._judge_some(clean) + self._judge_some(others)

    def _judge_some(self, verdicts: Sequence[BreachVerdict]) -> int:
        judged = 0
        for start in range(0, len(verdicts), AT_ONCE):
            some = verdicts[start : start + AT_ONCE]
            met = sorted({each for verdict in some for each in (verdict.red, verdict.blue)})
            contents = {each: self._store.content(each) for each in met}
            meetings = [Meeting(contents[v.red], contents[v.blue], v.category) for v in some]
            ruled = list(zip(some, self._judge.rule(meetings), strict=True))
            stored = self._store.rule(ruled, judge=self._judge.name, at=self._clock())
            judged += sum(
                new and ruling.error is None for new, (_, ruling) in zip(stored, ruled, strict=True)
            )
        return judged
