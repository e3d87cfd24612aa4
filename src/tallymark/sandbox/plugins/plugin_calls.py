"""Calls of plugins: each attempt becomes a `Score`, whatever happens.

An agent whose attempts keep costing processes is paused, and nobody else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import WorkFailed
from tallymark.sandbox.limits import DEADLY, NOT_LOADED, PAUSE_AFTER
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.attempt_exchange import exchange_attempts
from tallymark.sandbox.plugins.call_endings import Ending, NoAnswer, StoppedCall
from tallymark.sandbox.plugins.guest_handle import GuestGone
from tallymark.sandbox.plugins.plain_data import Unread
from tallymark.scoring.plugin_contract import plugin_score
from tallymark.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallymark.sandbox.plugins.attempt_exchange import PluginJob
    from tallymark.sandbox.plugins.guest_handle import GuestHandle
    from tallymark.sandbox.plugins.guest_pool import Pool
    from tallymark.sandbox.plugins.plugin_files import CompiledFiles
    from tallymark.scoring.score import Origin

Asked: TypeAlias = "tuple[Mapping[str, Any], str | None]"
"""The metrics of an attempt, and whose it is."""
_TEXT_CHARS = 1000
_MOST_GUESTS = 4
"""For one attempt: who ends more than these will end the next one too."""
_MOST_DYING = 10
"""So many different agents, each at once and nobody with an answer, and the plugin is broken."""


@dataclass(slots=True)
class DeadlyCalls:
    """Which agents' attempts have cost processes of one plugin; who costs too many is paused.

    It belongs to one caller, who keeps what must outlast it: see `store.pauses`.
    """

    deaths: dict[str, tuple[int, str]] = field(default_factory=dict)
    """How often each agent's attempts ended the process, and how the last time."""
    pause_after: int = PAUSE_AFTER
    _answered: int = 0
    _dying: set[str] = field(default_factory=set)
    _given_up: str = ""

    def begin(self) -> None:
        """A new batch: whether the plugin works for anybody is found out anew."""
        self._answered, self._given_up = 0, ""
        self._dying.clear()

    @property
    def is_quiet(self) -> bool:
        """Nobody has ended a process: nobody can be paused."""
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
        """So many attempts had an answer."""
        self._answered += count

    def note_death(self, user: str | None, said: str) -> None:
        """A call for this agent cost its process."""
        if user is None:
            return  # nobody's in particular
        self.deaths[user] = self.deaths.get(user, (0, ""))[0] + 1, said
        self._dying.add(user)
        if not self._answered and len(self._dying) >= _MOST_DYING:
            ended = f"the attempts of {len(self._dying)} agents all ended the plugin's process"
            self._given_up = f"the plugin is given up: {ended}; the last: {said}"


class Calls:
    """What one caller asked for, and what it takes to do it."""

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
        """The answer to one attempt, which is asked again where it may not be to blame.

        No attempt can end its guest, so one whose guests are gone waits. It can kill its own
        process: one that is killed a second time has failed, whoever did it.
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
        """What a child of any free guest answers; `NoAnswer` when it stops too soon, and where."""
        new = False
        while not new:
            # A guest that has gone says so before it takes an attempt: another can have them.
            with suppress(GuestGone), self._pool.guest(self._job.code, apart=expected > 1) as guest:
                new = guest.calls == 0
                if guest.compiled is None:
                    guest.compiled = self._compile_plugin(guest)
                yield from exchange_attempts(guest, self._job, attempts, expected)
                return
        raise WorkFailed("the sandbox ended as soon as it was started", hint="see `tally doctor`")

    def _compile_plugin(self, guest: GuestHandle) -> CompiledFiles:
        """What a child makes of the plugin's files; nothing when it cannot."""
        try:
            ((_, found),) = exchange_attempts(guest, self._job, [], 1)
            return {str(name): (str(path), bytes(code)) for name, (path, code) in found.items()}
        except (NoAnswer, TypeError, ValueError, AttributeError):
            return {}

    def judge(self, answer: object) -> Score:
        """The score that an answer amounts to. It is data, but whose, nobody knows."""
        match answer:
            case [answer_frames.GIVEN, result]:
                return plugin_score(result, origin=self._origin)
            case [answer_frames.FAILED, str(stopped), str(text)] if stopped in _SAID:
                return self._make_score(Ending(_SAID[stopped], text[:_TEXT_CHARS]))
            case Unread(why=why):
                return self._make_score(Ending("bad answer", why))
            case _:
                return self._make_score(Ending("bad answer", "the plugin's answer is not one"))

    def score_if_paused(self, user: str | None) -> Score | None:
        """The score of every attempt of an agent while it is paused."""
        reason = self.deadly.find_pause(user)
        return self._make_score(Ending("paused", reason)) if reason else None

    def _record_failure(self, ended: NoAnswer, user: str | None) -> Score:
        """The score of an attempt whose child gave no answer."""
        if ended.ending.stopped in DEADLY:
            if ended.at == 0:
                return self._make_score(Ending(NOT_LOADED, ended.ending.text))
            self.deadly.note_death(user, ended.ending.text)
        return self._make_score(ended.ending)

    def _make_score(self, ending: Ending) -> Score:
        metadata = {"stopped": ending.stopped}
        return Score(None, "", metadata, ending.text, None, self._origin)


_SAID: dict[str, StoppedCall] = {
    "raised": "raised",
    "memory": "memory",
    "bad answer": "bad answer",
    NOT_LOADED: NOT_LOADED,
}
"""The failures that a child may tell of itself."""
