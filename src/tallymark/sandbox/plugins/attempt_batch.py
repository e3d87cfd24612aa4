"""Many attempts of one plugin in one child, with the scores that each would have alone.

Attempts of a batch share a process, so a plugin that remembers things could score differently
here. Some are scored again alone, and so is whatever ended the process: at the first difference,
all of them are. An agent who has ended a process shares none with others from then on.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tallymark.sandbox.limits import DEADLY
from tallymark.sandbox.plugins.call_endings import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallymark.sandbox.plugins.plugin_calls import Asked, Calls
    from tallymark.scoring.score import Score

_PER_MESSAGE = 512
_CHECKED = 6
"""Attempts drawn at random to be scored again, besides the first, the last and what failed so."""
_FEW = 8


def score_batch(calls: Calls, attempts: Sequence[Asked]) -> list[Score]:
    """The score of each attempt, in order."""
    calls.deadly.begin()
    if len(attempts) <= _FEW:
        return [calls.score(each) for each in attempts]
    batch = _SharedChild(calls, attempts)
    if batch.score_all() and all(
        _is_same(batch.scores[at], calls.score_again(attempts[at])) for at in batch.draw_sample()
    ):
        return [batch.scores[at] for at in range(len(attempts))]
    # What was scored alone stands: it is so already, and may have cost the deadline.
    scores = [
        batch.scores[at] if at in batch.alone else calls.score(each)
        for at, each in enumerate(attempts)
    ]
    for score in scores:
        score.metadata["stateful"] = True
    return scores


def _is_same(one: Score, other: Score) -> bool:
    """Equal in what counts; times and addresses may stand in a text or in details."""
    ends = one.metadata.get("stopped"), other.metadata.get("stopped")
    return one.value == other.value and ends[0] == ends[1]


def _is_same_end(alone: Score, ended: NoAnswer) -> bool:
    ends = {alone.metadata.get("stopped"), ended.ending.stopped}
    return len(ends) == 1 or ends <= DEADLY


class _SharedChild:
    """Attempts in one child after another, until one is stopped."""

    def __init__(self, calls: Calls, attempts: Sequence[Asked]) -> None:
        self._calls, self._attempts = calls, attempts
        self.scores: dict[int, Score] = {}
        self.alone: set[int] = set()
        """Those that were scored in a child of their own, or not run at all."""
        self._apart: list[int] = []
        """Those of agents who have ended a child."""
        self._lost = 0
        """How many of those left were scored already by a child that died before it sent them."""

    def score_all(self) -> bool:
        """Every attempt has its score; False when one made a difference to another."""
        left = list(range(len(self._attempts)))
        while left := self._leave_paused(left):
            done, ended = self._score_in_one_child(left)
            if ended is None:
                break
            if ended.at == 0 and ended.ending.stopped in DEADLY:
                self._set_all(left[done:], self._calls.score_not_loaded(ended.ending))
                break
            at = (ended.at or 0) - 1
            if not done <= at < len(left):
                at = done  # it lies about where it was, or nobody knows
            culprit, lost = left[at], left[done:at]
            user = self._attempts[culprit][1]
            # What the child had done of this agent's comes before its death, sent or not: else
            # the time of sending would decide who is paused.
            own = [each for each in lost if user is not None and self._attempts[each][1] == user]
            self._score_alone([*own, culprit])
            if not _is_same_end(self.scores[culprit], ended):
                return False
            lost = [each for each in lost if each not in self.scores]
            left = self._set_apart(lost, left[at + 1 :], user)
        self._score_alone(self._apart)
        return True

    def draw_sample(self) -> list[int]:
        """Which attempts to score again: of those that shared a child."""
        shared = [at for at in range(len(self._attempts)) if at not in self.alone]
        if not shared:
            return []
        # By the system's randomness: no plugin can foresee which attempts are compared.
        drawn = random.SystemRandom().sample(shared, min(_CHECKED, len(shared)))
        full = [at for at in shared if self.scores[at].metadata.get("stopped") == "memory"]
        return sorted({shared[0], shared[-1], *drawn, *full[:_CHECKED]})

    def _score_in_one_child(self, left: list[int]) -> tuple[int, NoAnswer | None]:
        """Score as many as one child does: how many, and what ended it before the last."""
        done = 0
        try:
            for answers in self._calls.answers(self._split_messages(left), len(left)):
                for at, answer in zip(left[done : done + len(answers)], answers, strict=True):
                    self.scores[at] = self._calls.judge(answer)
                done += len(answers)
                self._calls.deadly.note_answers(len(answers))
        except NoAnswer as ended:
            return done, ended
        return done, None

    def _leave_paused(self, left: list[int]) -> list[int]:
        """Those that may be run; the others have their score."""
        if self._calls.deadly.is_quiet:
            return left
        for at in left:
            if (paused := self._calls.score_if_paused(self._attempts[at][1])) is not None:
                self._set_all([at], paused)
        return [at for at in left if at not in self.scores]

    def _set_apart(self, lost: list[int], rest: list[int], user: str | None) -> list[int]:
        """Those that go on together: an agent who ended a child is last, and alone."""
        if user is not None:
            self._apart += [at for at in rest if self._attempts[at][1] == user]
            rest = [at for at in rest if self._attempts[at][1] != user]
            # In an order that nobody can foresee: who comes first must not decide for the others.
            random.SystemRandom().shuffle(rest)
        self._lost = len(lost)
        return lost + rest

    def _score_alone(self, some: list[int]) -> None:
        for at in some:
            self.scores[at] = self._calls.score(self._attempts[at])
        self.alone.update(some)

    def _set_all(self, some: list[int], score: Score) -> None:
        self.scores.update(dict.fromkeys(some, score))
        self.alone.update(some)

    def _split_messages(self, left: list[int]) -> Iterator[list[Asked]]:
        """Answers are sent at the end of each message at the latest: what was lost goes first."""
        start, end = 0, self._lost or _PER_MESSAGE
        while start < len(left):
            yield [self._attempts[at] for at in left[start:end]]
            start, end = end, end + _PER_MESSAGE
