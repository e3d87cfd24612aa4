"""Calls of plugins: each attempt becomes a `Score`, even after a failure.

An agent whose attempts cost processes again and again is paused, and no other agent.

Many attempts go into one child, which forks a process for each and runs nothing of the plugin
itself: no attempt can leave anything for another. An attempt that ends without an answer there is
scored again in a child of its own, and its agent's attempts go last from then on, because waiting
for them delays the others.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import WorkFailed
from tallymark.sandbox.limits import DEADLY, NOT_LOADED, PAUSE_AFTER
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.attempt_exchange import (
    CallEnding,
    NoAnswer,
    StoppedCall,
    exchange_attempts,
)
from tallymark.sandbox.plugins.guest_handle import GuestGone
from tallymark.sandbox.plugins.plain_data import Unread
from tallymark.scoring.plugin_contract import plugin_score
from tallymark.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallymark.sandbox.plugins.attempt_exchange import PluginJob
    from tallymark.sandbox.plugins.guest_handle import GuestHandle
    from tallymark.sandbox.plugins.guest_pool import Pool
    from tallymark.sandbox.plugins.plugin_files import CompiledFiles
    from tallymark.scoring.score import Origin, Score

Asked: TypeAlias = "tuple[Mapping[str, Any], str | None]"
"""The metrics of an attempt, and its agent."""
_TEXT_CHARS = 1000
_MOST_GUESTS = 4
"""Limit for one attempt: one that ends more guests will end the next one too."""
_MOST_DYING = 10
"""Number of different agents, all without an answer, after which the plugin is taken as broken."""


@dataclass(slots=True)
class DeadlyCalls:
    """Counts of processes that agents' attempts ended, for one plugin; too many pause the agent.

    It belongs to one caller, which stores what must outlast it: see `store.plugin_quarantine`.
    """

    deaths: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For each agent, how often its attempts ended the process, and how the last time."""
    pause_after: int = PAUSE_AFTER
    _answered: int = 0
    _dying: set[str] = field(default_factory=set)
    _given_up: str = ""

    def begin(self) -> None:
        """Begin a new batch, which finds out again if the plugin works at all."""
        self._answered, self._given_up = 0, ""
        self._dying.clear()

    @property
    def is_quiet(self) -> bool:
        """True while no agent has ended a process, so that none can be paused."""
        return not self.deaths and not self._given_up

    def find_pause(self, user: str | None) -> str:
        """Why this agent's attempts are not run; empty when they are."""
        if self._given_up or user is None or user not in self.deaths:
            return self._given_up
        count, said = self.deaths[user]
        if count < self.pause_after:
            return ""
        ended = f"{count} of its attempts ended the plugin's process"
        return f"the plugin is paused for {user}: {ended}; the last: {said}"

    def note_answers(self, count: int) -> None:
        """Count attempts with an answer."""
        self._answered += count

    def note_death(self, user: str | None, said: str) -> None:
        """A call for this agent cost its process."""
        if user is None:
            return  # no agent to count it for
        self.deaths[user] = self.deaths.get(user, (0, ""))[0] + 1, said
        self._dying.add(user)
        if not self._answered and len(self._dying) >= _MOST_DYING:
            ended = f"the attempts of {len(self._dying)} agents all ended the plugin's process"
            self._given_up = f"the plugin is given up: {ended}; the last: {said}"


class Calls:
    """The calls of one caller, with their job, pool and counts."""

    def __init__(self, job: PluginJob, origin: Origin, *, pool: Pool, deadly: DeadlyCalls) -> None:
        self._job, self._origin = job, origin
        self._pool, self.deadly = pool, deadly

    def score(self, attempt: Asked) -> Score:
        """The score of one attempt, from a child of its own."""
        if (paused := self.score_if_paused(attempt[1])) is not None:
            return paused
        try:
            answer = self._ask_alone(attempt)
        except NoAnswer as ended:
            return self._record_failure(ended, attempt[1])
        self.deadly.note_answers(1)
        return self.judge(answer)

    def _ask_alone(self, attempt: Asked) -> Any:
        """The answer to one attempt, which is run again where it may not be the cause.

        No attempt can end its guest, so one whose guests are gone waits. It can kill its own
        process: one that is killed a second time has failed, whatever the cause.
        """
        was_killed = False
        for _ in range(_MOST_GUESTS):
            try:
                (answer,) = self.answers([[attempt]], 1)
            except NoAnswer as ended:
                if ended.at is not None and (was_killed or not ended.ending.killed):
                    raise
                was_killed = was_killed or ended.ending.killed
            else:
                return answer
        raise WorkFailed(
            "the sandbox around the plugin was ended from outside, again and again",
            hint="see whether the machine has run out of memory",
        )

    def answers(self, attempts: Iterable[list[Any]], expected: int) -> Iterator[Any]:
        """Answers of a child of any free guest; `NoAnswer` when it stops too soon."""
        new = False
        while not new:
            # A guest that has gone raises before it takes an attempt: another can have them.
            with suppress(GuestGone), self._pool.guest(self._job.code, apart=expected > 1) as guest:
                new = guest.calls == 0
                if guest.compiled is None:
                    guest.compiled = self._compile_plugin(guest)
                yield from exchange_attempts(guest, self._job, attempts, expected)
                return
        raise WorkFailed("the sandbox ended as soon as it was started", hint="see `tally doctor`")

    def _compile_plugin(self, guest: GuestHandle) -> CompiledFiles:
        """The plugin's files compiled by a child; empty when it cannot."""
        try:
            ((_, found),) = exchange_attempts(guest, self._job, [], 1)
            return {str(name): (str(path), bytes(code)) for name, (path, code) in found.items()}
        except (NoAnswer, TypeError, ValueError, AttributeError):
            return {}

    def judge(self, answer: object) -> Score:
        """Convert an answer to a score. It is untrusted data."""
        match answer:
            case [answer_frames.GIVEN, result]:
                return plugin_score(result, origin=self._origin)
            case [answer_frames.FAILED, str(stopped), str(text)] if stopped in _REPORTED:
                return self._make_score(CallEnding(_REPORTED[stopped], text[:_TEXT_CHARS]))
            case Unread(why=why):
                return self._make_score(CallEnding("bad answer", why))
            case _:
                return self._make_score(CallEnding("bad answer", "the plugin's answer is not one"))

    def score_if_paused(self, user: str | None) -> Score | None:
        """The score of every attempt of an agent while it is paused."""
        reason = self.deadly.find_pause(user)
        return self._make_score(CallEnding("paused", reason)) if reason else None

    def _record_failure(self, ended: NoAnswer, user: str | None) -> Score:
        """The score of an attempt whose child gave no answer."""
        if ended.ending.stopped in DEADLY:
            if ended.at == 0:
                return self._make_score(CallEnding(NOT_LOADED, ended.ending.text))
            self.deadly.note_death(user, ended.ending.text)
        return self._make_score(ended.ending)

    def _make_score(self, ending: CallEnding) -> Score:
        metadata = {"stopped": ending.stopped}
        return Score(None, "", metadata, ending.text, None, self._origin)


_REPORTED: dict[str, StoppedCall] = {
    "raised": "raised",
    "memory": "memory",
    "bad answer": "bad answer",
    NOT_LOADED: NOT_LOADED,
}
"""Failures that a child may report of itself."""

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
        """Attempts of agents that had one without an answer; scored last."""
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
            # Attempts before it are scored first, sent or not: else the time of sending would
            # decide about a pause.
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
        """The attempts that may run; the paused ones get their score here."""
        if self._calls.deadly.is_quiet:
            return left
        for at in left:
            if (paused := self._calls.score_if_paused(self._attempts[at][1])) is not None:
                self._keep(at, paused)
        return [at for at in left if at not in self._scores]

    def _move_back(self, rest: list[int], user: str | None) -> list[int]:
        """Move this agent's attempts to the end; each of them runs in a child of its own."""
        if user is not None:
            self._last += [at for at in rest if self._attempts[at][1] == user]
            rest = [at for at in rest if self._attempts[at][1] != user]
            # In a random order: an agent's place in the queue must not decide for the others.
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
