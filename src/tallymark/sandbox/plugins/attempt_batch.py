"""Many attempts of one plugin in one call, with the scores that each would have alone.

Each has a process of its own, forked from a child that runs nothing of the plugin: no attempt can
leave anything for another. Whatever ends without an answer there is scored again in a child of its
own, and who had no answer goes last from then on: waiting for it is what costs the others.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tallymark.sandbox.limits import NOT_LOADED
from tallymark.sandbox.plugins.call_endings import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallymark.sandbox.plugins.plugin_calls import Asked, Calls
    from tallymark.scoring.score import Score

_PER_MESSAGE = 512


def score_batch(calls: Calls, attempts: Sequence[Asked]) -> list[Score]:
    """The score of each attempt, in order."""
    calls.deadly.begin()
    if len(attempts) == 1:
        return [calls.score(attempts[0])]
    scores = _Batch(calls, attempts).score_all()
    return [scores[at] for at in range(len(attempts))]


class _Batch:
    """Attempts in one child after another, until each has its score."""

    def __init__(self, calls: Calls, attempts: Sequence[Asked]) -> None:
        self._calls, self._attempts = calls, attempts
        self._scores: dict[int, Score] = {}
        self._last: list[int] = []
        """Those of agents whose attempts had no answer."""
        self._not_loaded: Score | None = None
        """Why the plugin cannot score any attempt, once that is known."""

    def score_all(self) -> dict[int, Score]:
        """Every attempt's score, by its place."""
        left = list(range(len(self._attempts)))
        while self._not_loaded is None and (left := self._leave_paused(left)):
            done, ended = self._score_in_one_child(left)
            left = left[done:]
            if ended is None:
                break
            if ended.at is not None and 0 < ended.at <= done:
                continue  # it ended between two attempts: the first of them has left files
            culprit = max(0, (ended.at or 0) - 1 - done)
            user = self._attempts[left[culprit]][1]
            # What was done before it comes before it, sent or not: else the time of sending would
            # decide who is paused.
            self._score_alone(left[: culprit + 1])
            left = self._move_back(left[culprit + 1 :], user)
        self._score_alone(self._last)
        if self._not_loaded is not None:
            self._scores = dict.fromkeys(range(len(self._attempts)), self._not_loaded)
        return self._scores

    def _score_in_one_child(self, left: list[int]) -> tuple[int, NoAnswer | None]:
        """Score as many as one child does: how many, and what ended it before the last."""
        done = 0
        try:
            for answer in self._calls.answers(self._split_messages(left), len(left)):
                self._keep(left[done], self._calls.judge(answer))
                done += 1
                if self._not_loaded is not None:
                    break
                self._calls.deadly.note_answers(1)
        except NoAnswer as ended:
            return done, ended
        return done, None

    def _leave_paused(self, left: list[int]) -> list[int]:
        """Those that may be run; the others have their score."""
        if self._calls.deadly.is_quiet:
            return left
        for at in left:
            if (paused := self._calls.score_if_paused(self._attempts[at][1])) is not None:
                self._keep(at, paused)
        return [at for at in left if at not in self._scores]

    def _move_back(self, rest: list[int], user: str | None) -> list[int]:
        """Those that come before this agent's, which are last and each in a child of its own."""
        if user is not None:
            self._last += [at for at in rest if self._attempts[at][1] == user]
            rest = [at for at in rest if self._attempts[at][1] != user]
            # In an order that nobody can foresee: who comes first must not decide for the others.
            random.SystemRandom().shuffle(rest)
        return rest

    def _score_alone(self, some: list[int]) -> None:
        for at in some:
            if self._not_loaded is None:
                self._keep(at, self._calls.score(self._attempts[at]))

    def _keep(self, at: int, score: Score) -> None:
        self._scores[at] = score
        if score.metadata.get("stopped") == NOT_LOADED:
            self._not_loaded = score

    def _split_messages(self, left: list[int]) -> Iterator[list[Asked]]:
        """So that not all of them are encoded at once."""
        for start in range(0, len(left), _PER_MESSAGE):
            yield [self._attempts[at] for at in left[start : start + _PER_MESSAGE]]
