"""`Contest`: one attempt from entering to its score, with an agent that works on this machine.

Nothing here loses what an agent made: its folder stays, the attempt stays open until it is handed
in or its time is up, and each step can be done again.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.challenges.submitted_files import (
    parse_printed,
    read_answer,
    read_metadata,
    read_trajectory_text,
)
from tallymark.client.client import Client
from tallymark.client.competing.brief import (
    ANSWER,
    ATTEMPT,
    FOLDER,
    TOLD,
    Brief,
    lay_brief,
    make_brief,
    save_answer,
)
from tallymark.client.competing.function import open_agent
from tallymark.client.competing.program import ProgramEnd, run_program
from tallymark.client.competing.relay import SpanRelay
from tallymark.errors import Conflict, InvalidInput, Place, Problem, WorkFailed
from tallymark.service.attempts import (
    AttemptDetails,
    AttemptRecord,
    CheckedAnswer,
    EnteredAttempt,
    SubmittedAttempt,
)
from tallymark.text import clean_line, format_seconds

RESERVE_S = 10.0
"""Reserved for checking and submitting; a tenth of the time if that is less."""
SCORED_S = 600.0
"""Longest wait for a score that a job computes."""
HOME = Path(".tally/attempts")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HIDDEN = ("TALLY_KEY", "TALLY_SERVER", "TALLY_ADMIN_KEY", "TALLY_SECRET_KEY")
"""Environment variables that are hidden from agents."""
_LEAST_S = 1.0


@dataclass(frozen=True)
class Agent:
    """A competing program, by its command line."""

    words: Sequence[str]
    shown: str


def make_agent(command: str | None, function: str | None) -> Agent:
    """Find the program, or the Python function to run in one, before any clock starts."""
    if function is not None:
        open_agent(function)
        module = "tallymark.client.competing.function"
        return Agent([sys.executable, "-m", module, function], function)
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise InvalidInput(f"{command!r} cannot be read: {error}") from None
    if not words:
        raise InvalidInput("the command names no program", hint='as in "python agent.py"')
    if shutil.which(words[0]) is None:
        raise InvalidInput(f"there is no program {words[0]!r}", hint="check the command")
    return Agent(words, words[0])


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """The challenge and agent of an attempt."""

    challenge: str | None = None
    attempt: str | None = None
    """An attempt that is open already."""
    agent: str | None = None
    memoryless: bool = False
    key: str | None = None


@dataclass
class Witnessed:
    """Spans of an agent that the server received."""

    spans: int = 0
    problem: str | None = None


@dataclass
class Contest:
    """A running attempt. `show` is called with the agent's lines on standard error."""

    client: Client
    show: Callable[[str], None]
    server: str
    """Distinguishes its attempts from those of other servers."""
    folder: Path | None = None
    entered: EnteredAttempt | None = None
    brief: Brief | None = None
    answer_file: Path | None = None
    is_taken: bool = False
    """True once the server has the answer, which is then scored in any case."""
    witnessed: Witnessed = field(default_factory=Witnessed)
    _began: float = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the server accepts no answer, by its clock."""
        if self.entered is None:
            return 0.0
        return self.entered.seconds_left - (time.monotonic() - self._began)

    def enter(self, entrance: Entrance) -> EnteredAttempt:
        """Enter, or resume an open attempt."""
        name, agent = entrance.challenge, entrance.agent
        if entrance.attempt is not None:
            found = self.client.attempts.get(entrance.attempt)
            if name not in (None, found.challenge):
                raise Conflict(f"{entrance.attempt} is an attempt at {found.challenge}, not {name}")
            name, agent = found.challenge, agent or found.agent
        entered = self.client.attempts.enter(
            name or "",
            agent=agent,
            memoryless=entrance.memoryless,
            attempt=entrance.attempt,
            idempotency_key=entrance.key,
        )
        if not _ID.fullmatch(entered.attempt.id):  # a folder is called so, and a command shown
            said = clean_line(entered.attempt.id, 60)
            raise WorkFailed(f"the server calls the attempt {said!r}, which is no id of one")
        self.entered, self._began = entered, time.monotonic()
        return entered

    def work(self, agent: Agent, most_seconds: float | None = None) -> Any:
        """Run the agent, and return its answer. A failing agent leaves the attempt open."""
        entered, left = self._need(), self.seconds_left
        seconds = left - min(RESERVE_S, left / 10)
        seconds = seconds if most_seconds is None else min(seconds, most_seconds)
        if seconds < _LEAST_S:
            raise WorkFailed(f"only {format_seconds(max(0.0, left))} are left: too few to begin")
        # The same folder for a later run that resumes the attempt.
        folder = self.folder or HOME / self.server / entered.attempt.id
        self.brief = brief = make_brief(entered, seconds, folder)
        lay_brief(brief)
        environment = {key: value for key, value in os.environ.items() if key not in _HIDDEN}
        environment |= {FOLDER: brief.folder, ANSWER: str(brief.answer_path)}
        environment[ATTEMPT] = brief.attempt
        with SpanRelay(self.client.connection, entered.token or "") as relay:
            try:
                end = run_program(
                    agent.words,
                    folder=brief.path,
                    environment=environment | relay.environment,
                    seconds=seconds,
                    most_output=brief.submission.max_bytes,
                    show=self.show,
                )
            finally:
                self.witnessed = Witnessed(relay.spans, relay.problem)
        self.witnessed = Witnessed(relay.spans, relay.problem)
        answer = _read_end(brief, agent, end)
        self.answer_file = brief.answer_path
        return answer

    def read(self, path: Path) -> Any:
        """Read an existing answer in the form that the challenge asks for."""
        return read_answer(path, self._need().challenge.submission)

    def check(self, answer: Any) -> CheckedAnswer:
        """Raise if the server would refuse an answer; return its other findings."""
        found = self.client.attempts.check(self._need().attempt.id, answer, **self._read_told())
        if not found.acceptable:
            raise InvalidInput(
                [
                    Problem(each.message, Place(source=each.place), each.hint or None)
                    for each in found.findings
                    if each.severity == "error"
                ]
            )
        return found

    def submit(self, answer: Any) -> SubmittedAttempt:
        """Submit the answer under one key, so that retries count once, and wait for its score."""
        told = self._read_told() | {"idempotency_key": secrets.token_hex(16)}
        attempt = self._need().attempt.id
        done = self.client.attempts.submit(attempt, answer, **told)
        self.is_taken = True
        if not _is_being_scored(done.attempt):
            return done
        self._wait_for_score(self.client.attempts.get(attempt))
        # Under the same key: now with its score, its place, and who is above.
        return self.client.attempts.submit(attempt, answer, wait=False, **told)

    def find_result(self, attempt: str) -> AttemptDetails:
        """Wait for the score of an attempt, and read it."""
        return self._wait_for_score(self.client.attempts.get(attempt))

    def _wait_for_score(self, attempt: AttemptDetails) -> AttemptDetails:
        until, pause = time.monotonic() + SCORED_S, 0.2
        while _is_being_scored(attempt) and time.monotonic() < until:
            time.sleep(pause)
            pause = min(5.0, pause * 1.5)
            attempt = self.client.attempts.get(attempt.id)
        return attempt

    def _read_told(self) -> dict[str, Any]:
        """Read the metadata file that an agent may write."""
        if self.brief is None:
            return {}
        steps, said = (self.brief.path / name for name in TOLD)
        told: dict[str, Any] = {"trajectory": read_trajectory_text(steps)} if steps.exists() else {}
        return told | ({"metadata": read_metadata(said)} if said.exists() else {})

    def _need(self) -> EnteredAttempt:
        assert self.entered is not None  # noqa: S101 (who calls has entered)
        return self.entered


def _read_end(brief: Brief, agent: Agent, end: ProgramEnd) -> Any:
    """Read the answer of a program; its answer file counts even after a timeout."""
    path = brief.answer_path
    written = any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0
    if end.timed_out and not written:
        raise WorkFailed(
            f"{agent.shown} had no answer after {format_seconds(end.seconds)}, and was ended",
            hint="write what there is to TALLY_ANSWER as it gets better: it counts in the end",
        )
    if end.code and not end.timed_out:
        words = f": {clean_line(end.last_words, 200)}" if end.last_words else ""
        raise WorkFailed(f"{agent.shown} ended with exit code {end.code}{words}")
    if written:
        return read_answer(brief.answer_path, brief.submission)
    if not end.output.strip():
        raise WorkFailed(
            f"{agent.shown} gave no answer",
            hint="print it, or write it to the file or folder that TALLY_ANSWER names",
        )
    answer = parse_printed(end.output, brief.submission)
    save_answer(brief, answer)
    return answer


def _is_being_scored(attempt: AttemptRecord) -> bool:
    return attempt.state == "submitted" and attempt.waiting is None
