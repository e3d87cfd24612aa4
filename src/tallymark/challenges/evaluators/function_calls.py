"""Calls submitted functions inside a sandbox; only arguments go in, and only values come out.

The host sends one case after the other and measures the time of each. An answer begins with a
random token of its case, so none can be given early or for another case, and printed text cannot
be mistaken for one. A submission that finds the token can send wrong values, which do no more than
wrong answers.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallymark.challenges.organiser_script import run_limited
from tallymark.documents.bounded_json import read_bounded_json
from tallymark.sandbox import Limits
from tallymark.sandbox.programs.launcher_process import DialogueTurn

if TYPE_CHECKING:
    from tallymark.challenges.evaluators.program_cases import ProgramCase
    from tallymark.sandbox import Policy, ProgramOutcome
    from tallymark.sandbox.programs.launcher_process import Dialogue

TOTAL_S = 120.0
"""Default time limit in seconds for all cases together."""
STARTING_S = 2.0
"""Time allowed for starting Python and importing the submission."""
_PASSING_S = 0.1
"""Extra time for an answer to arrive on a busy machine."""
_NOTHING_MORE = DialogueTurn(b"", 0.0)

# Runs inside the sandbox, before and around the submitted code. The pipes are moved away from 0 and
# 1, so that what the submission prints goes nowhere; `os._exit` leaves its threads and what it
# would do at the exit behind. It keeps no time: what runs in the submission's process is the
# submission's to change.
_RUNNER = """
import importlib.util, json, os, sys
asked = os.fdopen(os.dup(0), "rb")
out = os.fdopen(os.dup(1), "wb", 0)
for name, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
    os.dup2(os.open(os.devnull, mode), name)
sys.path.insert(0, os.getcwd())

def tell(word, *values):
    try:
        line = json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        line = "[]"
    out.write(word.encode() + line.encode() + b"\\n")

word, entry = json.loads(asked.readline())
try:
    found = importlib.util.spec_from_file_location("submission", entry)
    module = sys.modules["submission"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
except BaseException as error:
    tell(word, type(error).__name__)
    os._exit(0)
tell(word)
for line in asked:
    word, function, args, kwargs = json.loads(line)
    try:
        values = [getattr(module, function)(*args, **kwargs)]
    except BaseException:
        values = []
    tell(word, *values)
os._exit(0)
"""


@dataclass(slots=True)
class TimeLeft:
    """Remaining time of the submission for all cases."""

    seconds: float = TOTAL_S

    @property
    def is_used_up(self) -> bool:
        return self.seconds <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedProgram:
    """Submitted files, and what they may use."""

    files: Mapping[str, str]
    entry: str
    time_s: float
    memory_mb: int
    left: TimeLeft = field(default_factory=TimeLeft)
    packages: bool = False
    policy: Policy | None = None

    def run(
        self,
        command: Sequence[str],
        stdin: str,
        limits: Limits,
        dialogue: Dialogue | None = None,
    ) -> ProgramOutcome:
        """A command in a new sandbox with its files, in the time that is left for all cases."""
        wall_s = min(limits.wall_s, self.left.seconds)
        outcome = run_limited(
            command,
            files=self.files,
            stdin=stdin,
            limits=replace(limits, wall_s=wall_s, memory_mb=self.memory_mb),
            packages=self.packages,
            policy=self.policy,
            dialogue=dialogue,
        )
        self.left.seconds -= outcome.wall_s
        return outcome


@dataclass(slots=True)
class CallResults:
    """The values by case; a case that is not there gave none."""

    values: dict[int, Any] = field(default_factory=dict)
    not_loaded: str | None = None
    """The kind of exception that importing the submission ended with; empty for none of them."""


def call_functions(program: SubmittedProgram, cases: Mapping[int, ProgramCase]) -> CallResults:
    """All calls in one sandbox; where one ends it or takes too long, the rest go on in the next."""
    called = CallResults()
    left = list(cases.items())
    while left and called.not_loaded is None and not program.left.is_used_up:
        talk = _CaseTalk(program, left, called)
        limits = Limits(
            wall_s=STARTING_S,
            cpu_s=STARTING_S + (program.time_s + _PASSING_S) * len(left),
            output_mb=8.0,
        )
        program.run(["python", "-P", "-c", _RUNNER], talk.opening, limits, talk)
        if not talk.is_loaded:
            called.not_loaded = talk.not_loaded
        # The last case, which got no answer, is not sent again.
        left = left[talk.answered + 1 :]
    return called


class _CaseTalk:
    """Asks one case at a time, from the first on; the next when it has been answered."""

    def __init__(
        self,
        program: SubmittedProgram,
        cases: Sequence[tuple[int, ProgramCase]],
        called: CallResults,
    ) -> None:
        self._time_s, self._cases, self._called = program.time_s, cases, called
        self._until = time.monotonic() + program.left.seconds
        self._heard = bytearray()
        self._word = _draw_word()
        self.opening = json.dumps([self._word, program.entry]) + "\n"
        self.is_loaded, self.not_loaded = False, ""
        self.answered = 0

    def hear(self, output: bytes) -> DialogueTurn | None:
        """The next call, if the output is the expected answer."""
        begin = len(self._heard)
        self._heard += output
        while (end := self._heard.find(b"\n", begin)) >= 0:
            line = bytes(self._heard[:end])
            del self._heard[: end + 1]
            begin = 0
            if line.startswith(self._word.encode()):
                # Output that follows at once was sent before the next case.
                self._heard.clear()
                return self._take_answer(line[len(self._word) :])
        return None

    def _take_answer(self, line: bytes) -> DialogueTurn:
        values = _read_values(line)
        if not self.is_loaded:
            self.is_loaded = not values
            if values:
                self.not_loaded = str(values[0])
                return _NOTHING_MORE
        else:
            if values:
                self._called.values[self._cases[self.answered][0]] = values[0]
            self.answered += 1
        left_s = self._until - time.monotonic()
        if self.answered == len(self._cases) or left_s <= 0:
            return _NOTHING_MORE
        self._word = _draw_word()
        asked = json.dumps([self._word, *self._cases[self.answered][1].inputs])
        return DialogueTurn(asked.encode() + b"\n", min(self._time_s + _PASSING_S, left_s))


def _draw_word() -> str:
    return f"{secrets.token_hex(16)} "


def _read_values(line: bytes) -> list[Any]:
    """The received value in a list; empty if it is invalid."""
    try:
        told = read_bounded_json(line)
    except ValueError:
        return []
    return told[:1] if isinstance(told, list) else []
