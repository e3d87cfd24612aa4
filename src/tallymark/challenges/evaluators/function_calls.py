"""Calling submitted functions inside a sandbox; only arguments go in, and only values come out.

What is printed there cannot be taken for a value: values come on a descriptor of their own, in
lines that begin with a word made for the run. A submission that finds both can send wrong values,
and those do no more than wrong answers would.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tallymark.challenges.organiser_script import run_limited
from tallymark.documents.agent_json import read_json
from tallymark.sandbox import Limits

if TYPE_CHECKING:
    from tallymark.challenges.evaluators.program_cases import ProgramCase
    from tallymark.sandbox import Policy, ProgramOutcome

STARTING_S = 2.0
"""What starting Python and importing the submission may add to the time of the calls."""

# Runs inside the sandbox, before and around the submitted code. The pipe is moved away from 1, so
# that what the submission prints goes nowhere; `os._exit` leaves its threads and exit handlers
# behind.
_RUNNER = """
import builtins, importlib.util, json, os, signal, sys
given = json.loads(sys.stdin.buffer.read())
out = os.fdopen(os.dup(1), "wb", 0)
for name, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
    os.dup2(os.open(os.devnull, mode), name)
sys.path.insert(0, os.getcwd())

class OutOfTime(BaseException):
    pass

def out_of_time(*_):
    raise OutOfTime

def tell(what, value):
    try:
        line = json.dumps([what, value], allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        line = json.dumps([what])
    out.write(given["word"].encode() + line.encode() + b"\\n")

signal.signal(signal.SIGALRM, out_of_time)
try:
    found = importlib.util.spec_from_file_location("submission", given["entry"])
    module = sys.modules["submission"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
except BaseException as error:
    tell("failed", type(error).__name__)
    os._exit(0)
for index, (function, args, kwargs) in given["calls"]:
    try:
        signal.setitimer(signal.ITIMER_REAL, given["time"])
        value = getattr(module, function)(*args, **kwargs)
        signal.setitimer(signal.ITIMER_REAL, 0)
        tell(index, value)
    except BaseException:
        signal.setitimer(signal.ITIMER_REAL, 0)
        out.write(given["word"].encode() + json.dumps([index]).encode() + b"\\n")
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedProgram:
    """Submitted files, and what they may use."""

    files: Mapping[str, str]
    entry: str
    time_s: float
    memory_mb: int
    packages: bool = False
    policy: Policy | None = None

    def run(self, command: Sequence[str], stdin: str, limits: Limits) -> ProgramOutcome:
        """A command in a new sandbox with its files."""
        return run_limited(
            command,
            files=self.files,
            stdin=stdin,
            limits=replace(limits, memory_mb=self.memory_mb),
            packages=self.packages,
            policy=self.policy,
        )


@dataclass(slots=True)
class CallResults:
    """The values by case; a case that is not there gave none."""

    values: dict[int, Any] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    """The cases that ended by themselves, with a value or without."""
    not_loaded: str | None = None
    """The kind of exception that importing the submission ended with."""


def call_functions(program: SubmittedProgram, cases: Mapping[int, ProgramCase]) -> CallResults:
    """All calls in one sandbox; from the first that ends it on, each in one of its own."""
    called = _call_together(program, cases)
    if called.not_loaded is not None:
        return called
    # Cases are called in order: the first without an end is the one that ended the sandbox, and
    # would end the next one too.
    broken = next((index for index in cases if index not in called.done), None)
    left = [index for index in cases if index not in called.done and index != broken]
    for index in left:
        alone = _call_together(program, {index: cases[index]})
        called.values.update(alone.values)
    return called


def _call_together(program: SubmittedProgram, cases: Mapping[int, ProgramCase]) -> CallResults:
    word = f"{secrets.token_hex(16)} "
    given = {
        "word": word,
        "entry": program.entry,
        "time": program.time_s,
        "calls": [[index, case.inputs] for index, case in cases.items()],
    }
    limits = Limits(wall_s=STARTING_S + program.time_s * len(cases), output_mb=8.0)
    outcome = program.run(["python", "-P", "-c", _RUNNER], json.dumps(given), limits)
    return _read_results(outcome.stdout, word, cases)


def _read_results(printed: bytes, word: str, cases: Mapping[int, ProgramCase]) -> CallResults:
    """What was told of each case; the first word on a case counts."""
    called = CallResults()
    for line in printed.decode("utf-8", "replace").split("\n"):
        match _read_frame(line, word):
            case ["failed", str(name)]:
                called.not_loaded = name
            case [int(index), *values] if index in cases and index not in called.done:
                called.done.add(index)
                if values:
                    called.values[index] = values[0]
    return called


def _read_frame(line: str, word: str) -> Sequence[Any]:
    if not line.startswith(word):
        return []
    try:
        told = read_json(line.removeprefix(word))
    except ValueError:
        return []
    return told if isinstance(told, list) else []
