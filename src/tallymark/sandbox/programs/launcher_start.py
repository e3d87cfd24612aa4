"""Starting the launcher, with pipes to talk to it and to the program."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallymark.errors import WorkFailed
from tallymark.sandbox import interpreter
from tallymark.sandbox.programs.program_pipes import PassedLimit, Pipes, PipeTalk
from tallymark.sandbox.programs.program_task import ProgramTask

_LAUNCHER = "tallymark.sandbox.programs.launcher"
_MOST_WORDS = 1 << 20
"""For what the launcher says besides the files that it hands back."""


@dataclass(frozen=True, slots=True)
class RunningLauncher:
    """A launcher that has been started, and our ends of its pipes."""

    process: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    orders: int
    report: int


def start_launcher(  # noqa: PLR0913 (each says one thing about the start)
    pipes: Pipes,
    how: str,
    *,
    code: Path = interpreter.OUR_CODE,
    python: Path | None = None,
    before: Sequence[str] = (),
    also: Sequence[int] = (),
    lent: int | None = None,
) -> RunningLauncher:
    """Starts it behind the words of `before`, with the descriptors `also`, which we then close.

    A descriptor that is `lent` stays open here too.
    """
    kept = () if lent is None else (lent,)
    stdin, to_stdin = pipes.pipe()
    from_stdout, stdout = pipes.pipe()
    from_stderr, stderr = pipes.pipe()
    orders, to_orders = pipes.pipe()
    from_report, report = pipes.pipe()
    arguments = (how, str(orders), str(report))
    launcher = interpreter.module_command(_LAUNCHER, *arguments, code=code, python=python)
    try:
        process = subprocess.Popen(  # noqa: S603 (our own words)
            [*before, *launcher],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(orders, report, *also, *kept),
            env={},
            start_new_session=True,
        )
    except OSError as error:
        raise WorkFailed(f"the sandbox cannot be started: {error}") from None
    for each in (stdin, stdout, stderr, orders, report, *also):
        pipes.close(each)
    return RunningLauncher(process, to_stdin, from_stdout, from_stderr, to_orders, from_report)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnding:
    """How a run ended, as its two sides saw it."""

    code: int
    """Negative: the signal that ended it."""
    stopped: PassedLimit | None
    stdout: bytes
    stderr: bytes
    kept: dict[str, bytes]
    refused: dict[str, str]
    wall_s: float


def converse(
    pipes: Pipes,
    launched: RunningLauncher,
    task: ProgramTask,
    orders: bytes,
    *,
    kill: Callable[[], None],
    look: Callable[[], PassedLimit | None] | None = None,
) -> PipeTalk:
    """Talks with launcher and program until the end."""
    talk = PipeTalk(
        pipes=pipes,
        ended=pipes.adopt(os.pidfd_open(launched.process.pid)),
        feeds={launched.orders: orders, launched.stdin: task.stdin},
        stdout=launched.stdout,
        stderr=launched.stderr,
        report=launched.report,
        wall_s=task.limits.wall_s,
        output_bytes=task.output_bytes,
        report_bytes=task.disk_bytes + _MOST_WORDS,
        kill=kill,
        look=look,
        stdin=launched.stdin,
        dialogue=task.dialogue,
    )
    talk.hold()
    return talk


def read_report(talk: PipeTalk, code: int | None = None) -> tuple[dict[str, Any], bytes]:
    """What the launcher said at the end, and the bytes after it; WorkFailed if it never began.

    Nothing at all of one that broke down later: that is as if the program had been killed.
    """
    first, _, rest = talk.said_on(talk.report).partition(b"\n")
    line = json.loads(first) if first else {}
    # A program may flood its output, and be killed with its launcher, before that can say a word.
    if "started" not in line and talk.stopped != "output":
        said = talk.said_on(talk.stderr).decode(errors="replace").strip()
        silent = "it said nothing"
        if talk.stopped == "timeout":
            silent = "it did not start in time"
        elif code is not None:
            silent = f"it ended with {f'signal {-code}' if code < 0 else f'code {code}'}"
        why = line.get("failed") or said or silent
        raise WorkFailed(
            f"the sandbox could not be set up: {why}", hint="see what `tally doctor` says"
        )
    last, _, data = rest.partition(b"\n")
    ending = json.loads(last) if last else {}
    # Once the program ran, whatever broke is its doing, and what is said of it may be its words.
    return ({}, b"") if "failed" in ending else (ending, data)
