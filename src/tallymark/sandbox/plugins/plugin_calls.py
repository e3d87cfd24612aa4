"""Calls of plugins: each attempt becomes a `Score`, whatever happens; who crashes is paused."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tallymark.errors import WorkFailed
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.attempt_exchange import exchange_attempts
from tallymark.sandbox.plugins.call_endings import DEADLY, Ending, NoAnswer
from tallymark.sandbox.plugins.guest_handle import GuestGone
from tallymark.scoring.plugin_contract import plugin_score
from tallymark.scoring.score import Score

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallymark.sandbox.plugin_code import PluginCode
    from tallymark.sandbox.plugins.attempt_exchange import PluginJob
    from tallymark.sandbox.plugins.guest_handle import GuestHandle
    from tallymark.sandbox.plugins.guest_pool import Pool
    from tallymark.sandbox.plugins.plugin_files import CompiledFiles
    from tallymark.scoring.score import Origin

_TEXT_CHARS = 1000


class Calls:
    """What one caller asked for, and what it takes to do it."""

    def __init__(self, job: PluginJob, origin: Origin, *, pool: Pool, health: Health) -> None:
        self._job, self._origin = job, origin
        self._pool, self._health = pool, health

    def score(self, metrics: object) -> Score:
        """The score of one attempt, from a child of its own."""
        if (paused := self.score_if_paused()) is not None:
            return paused
        try:
            ((answer,),) = self.answers([[metrics]], 1)
        except NoAnswer as ended:
            return self.record_failure(ended.ending)
        self.record_answers(1)
        return self.judge(answer)

    def score_again(self, metrics: object) -> Score:
        """As `score`, to compare: what it finds was counted before and pauses nobody."""
        try:
            ((answer,),) = self.answers([[metrics]], 1)
        except NoAnswer as ended:
            return self._make_score(ended.ending)
        return self.judge(answer)

    def answers(self, attempts: Iterable[list[Any]], expected: int) -> Iterator[list[Any]]:
        """What a child of any free guest answers; `NoAnswer` when it stops too soon, and where."""
        new = False
        while not new:
            # A guest that has gone says so before it takes an attempt: another can have them.
            with suppress(GuestGone), self._pool.guest(self._job.code) as guest:
                new = guest.calls == 0
                if guest.compiled is None:
                    guest.compiled = self._compile_plugin(guest)
                yield from exchange_attempts(guest, self._job, attempts, expected)
                return
        raise WorkFailed("the sandbox ended as soon as it was started", hint="see `tally doctor`")

    def _compile_plugin(self, guest: GuestHandle) -> CompiledFiles:
        """What a child makes of the plugin's files; nothing when it cannot."""
        try:
            (((_, found),),) = exchange_attempts(guest, self._job, [], 1)
            return {str(name): (str(path), bytes(code)) for name, (path, code) in found.items()}
        except (NoAnswer, TypeError, ValueError, AttributeError):
            return {}

    def judge(self, answer: object) -> Score:
        """The score that an answer amounts to. It is data, but whose, nobody knows."""
        match answer:
            case [answer_frames.GIVEN, result]:
                return plugin_score(result, origin=self._origin)
            case [answer_frames.FAILED, "raised" | "memory" | "bad answer" as stopped, str(text)]:
                return self._make_score(Ending(stopped, text[:_TEXT_CHARS]))
            case _:
                return self._make_score(Ending("bad answer", "the plugin's answer is not one"))

    def record_failure(self, ending: Ending) -> Score:
        """The score of an attempt whose child gave no answer."""
        self._health.note(self._job.code, ending.stopped, ending.text)
        return self._make_score(ending)

    def record_answers(self, calls: int) -> None:
        """So many attempts had an answer."""
        self._health.note(self._job.code, None, calls=calls)

    def score_if_paused(self) -> Score | None:
        """The score of every attempt while the plugin is paused."""
        reason = self._health.find_pause(self._job.code)
        if not reason:
            return None
        return self._make_score(Ending("paused", f"the plugin is paused: {reason}"))

    def _make_score(self, ending: Ending) -> Score:
        metadata = {"stopped": ending.stopped}
        return Score(None, "", metadata, ending.text, None, self._origin)


@dataclass(frozen=True, slots=True)
class PluginState:
    """How a plugin fares in one sandbox."""

    state: Literal["idle", "warm", "paused"]
    reason: str
    """Why it is paused; empty otherwise."""
    crashes: int
    """Calls in a row that cost their process: crashed, killed at the deadline, out of memory."""
    calls: int


@dataclass(slots=True)
class _CallCounts:
    calls: int = 0
    crashes: int = 0
    paused: str = ""


class Health:
    """Counts the endings of each plugin's calls. Thread-safe."""

    def __init__(self, pause_after: int) -> None:
        self._pause_after = pause_after
        self._records: dict[PluginCode, _CallCounts] = {}
        self._lock = threading.Lock()

    def find_pause(self, code: PluginCode) -> str:
        """Why the plugin is paused; empty when it is not."""
        # Without the lock: every call asks, and looking one thing up cannot see half a change.
        record = self._records.get(code)
        return "" if record is None else record.paused

    def note(
        self, code: PluginCode, stopped: str | None, said: str = "", *, calls: int = 1
    ) -> None:
        """Calls have ended, the last one in this way: None when it gave an answer."""
        with self._lock:
            record = self._records.setdefault(code, _CallCounts())
            record.calls += calls
            if stopped not in DEADLY:
                record.crashes = 0
                return
            record.crashes += 1
            if record.crashes >= self._pause_after:
                record.paused = f"{record.crashes} calls in a row failed; the last: {said}"

    def resume(self, code: PluginCode) -> None:
        """Let it be called again."""
        with self._lock:
            record = self._records.setdefault(code, _CallCounts())
            record.crashes, record.paused = 0, ""

    def state(self, code: PluginCode, *, warm: bool) -> PluginState:
        """What is known of it; `warm` when a guest of it is running."""
        with self._lock:
            record = self._records.get(code, _CallCounts())
            now: Literal["idle", "warm"] = "warm" if warm else "idle"
            state = "paused" if record.paused else now
            return PluginState(state, record.paused, record.crashes, record.calls)
