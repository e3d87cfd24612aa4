"""Many attempts of one plugin in one child, with the scores that each would have alone.

Attempts of a batch share a process, so a plugin that remembers things could score differently
here. Some are scored again alone; at the first difference, all of them are.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tallymark.sandbox.plugins.call_endings import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallymark.sandbox.plugins.plugin_calls import Calls
    from tallymark.scoring.score import Score

_PER_MESSAGE = 512
_CHECKED = 6
"""Attempts drawn at random to be scored again, besides the first, the last and what crashed."""
_FEW = 8
_MAY_BE_STATE = frozenset({"crashed", "memory", "refused"})
_LEFT_OUT = frozenset({"timeout", "paused"})


def score_batch(calls: Calls, attempts: Sequence[Any]) -> list[Score]:
    """The score of each attempt, in order."""
    if len(attempts) <= _FEW:
        return [calls.score(metrics) for metrics in attempts]
    scores = _SharedChild(calls, attempts).scores()
    if all(_is_same(scores[at], calls.score_again(attempts[at])) for at in _draw_sample(scores)):
        return scores
    alone = [calls.score(metrics) for metrics in attempts]
    for score in alone:
        score.metadata["stateful"] = True
    return alone


def _draw_sample(scores: list[Score]) -> list[int]:
    """Which attempts to score again: not what ran into the deadline, which would cost it twice."""
    # By the system's randomness: no plugin can foresee which attempts are compared.
    drawn = random.SystemRandom().sample(range(len(scores)), _CHECKED)
    died = [at for at, score in enumerate(scores) if score.metadata.get("stopped") in _MAY_BE_STATE]
    wanted = {0, len(scores) - 1, *drawn, *died[:_CHECKED]}
    return [at for at in sorted(wanted) if scores[at].metadata.get("stopped") not in _LEFT_OUT]


def _is_same(one: Score, other: Score) -> bool:
    """Equal in what counts; times and addresses may stand in a text or in details."""
    ends = one.metadata.get("stopped"), other.metadata.get("stopped")
    return one.value == other.value and ends[0] == ends[1]


class _SharedChild:
    """Attempts in one child after another: one that is stopped costs the attempt it was at."""

    def __init__(self, calls: Calls, attempts: Sequence[Any]) -> None:
        self._calls, self._attempts = calls, attempts
        self._scores: dict[int, Score] = {}
        self._lost = 0
        """How many of those left were scored already by a child that died before it sent them."""

    def scores(self) -> list[Score]:
        left = list(range(len(self._attempts)))
        while left:
            left = self._score_in_one_child(left)
        return [self._scores[at] for at in range(len(self._attempts))]

    def _score_in_one_child(self, left: list[int]) -> list[int]:
        """Score as many as one child does; the attempts that are left for the next."""
        if (paused := self._calls.score_if_paused()) is not None:
            self._scores |= dict.fromkeys(left, paused)
            return []
        done = 0
        try:
            for answers in self._calls.answers(self._split_messages(left), len(left)):
                for at, answer in zip(left[done : done + len(answers)], answers, strict=True):
                    self._scores[at] = self._calls.judge(answer)
                done += len(answers)
                self._calls.record_answers(len(answers))
        except NoAnswer as ended:
            at = ended.at - 1
            if not done <= at < len(left):
                at = done  # it died while it was loaded, or lies about where it was
            self._scores[left[at]] = self._calls.record_failure(ended.ending)
            self._lost = at - done
            return left[done:at] + left[at + 1 :]
        return []

    def _split_messages(self, left: list[int]) -> Iterator[list[Any]]:
        """Answers are sent at the end of each message at the latest: what was lost goes first."""
        start, end = 0, self._lost or _PER_MESSAGE
        while start < len(left):
            yield [self._attempts[at] for at in left[start:end]]
            start, end = end, end + _PER_MESSAGE
