"""A run without namespaces, in a folder of the host: the launcher becomes the program.

Behind Landlock and seccomp it cannot make a second process, so killing it ends everything.
"""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from tallymark.sandbox import interpreter, scratch
from tallymark.sandbox.programs import usage, view
from tallymark.sandbox.programs.conversation import Conversation, Pipes, Stopped
from tallymark.sandbox.programs.launching import Ended, converse, launch, report
from tallymark.sandbox.programs.task import Task


def run_direct(task: Task, *, walls: bool) -> Ended:
    """One program; with `walls` one process, without them whatever it likes."""
    place = Path(tempfile.mkdtemp(prefix="tally-"))
    home, folder = place / "python", place / "scratch"
    try:
        _furnish(task, home, folder)
        order = task.order(home=home, folder=folder, uid=None, walls=walls, alone=False)
        talk, code = _ran(task, order, folder)
        report(talk)
        kept, refused = scratch.collect(folder, list(task.keep), task.disk_bytes)
        return Ended(
            code=code,
            stopped=talk.stopped or _full(task, folder),
            stdout=talk.said_on(talk.stdout),
            stderr=talk.said_on(talk.stderr),
            kept=kept,
            refused=refused,
            wall_s=talk.wall(),
        )
    finally:
        scratch.clear(place)


def _furnish(task: Task, home: Path, folder: Path) -> None:
    """The program's files, and an environment for its Python."""
    folder.mkdir()
    for name, data in task.files.items():
        scratch.lay(folder, name, data)
    (home / "bin").mkdir(parents=True)
    python = interpreter.host_path()
    (home / "pyvenv.cfg").write_text(view.python_settings(python, packages=task.packages))
    for name in view.PYTHON_NAMES:
        (home / "bin" / name).symlink_to(python)
    for within, packages in view.packages_folders(wanted=task.packages).items():
        (home / within).parent.mkdir(parents=True, exist_ok=True)
        (home / within).symlink_to(packages)


def _ran(task: Task, order: bytes, folder: Path) -> tuple[Conversation, int]:
    with Pipes() as pipes:
        launched = launch(pipes, "become")
        process = launched.process

        def look() -> Stopped | None:
            if usage.memory_passed([process.pid], task.memory_bytes):
                return "memory"
            if usage.cpu_s([process.pid]) > task.cpu_s:
                return "cpu"
            return _full(task, folder)

        def kill() -> None:
            """Its group too, until it has been waited for: without walls there may be more."""
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        try:
            talk = converse(pipes, launched, task, order, kill=kill, look=look)
        finally:
            kill()
            code = process.wait()
    return talk, code


def _full(task: Task, folder: Path) -> Stopped | None:
    return "disk" if scratch.overfull(folder, task.scratch_bytes) else None
