"""A run without namespaces, in a folder of the host: the launcher becomes the program.

Behind Landlock and seccomp it cannot make a second process, so killing it ends everything.
"""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from tallymark.sandbox import interpreter, kernel_calls, scratch_folder
from tallymark.sandbox.programs import process_usage, program_view
from tallymark.sandbox.programs.launcher_process import (
    PassedLimit,
    Pipes,
    PipeServer,
    ProgramEnding,
    converse,
    read_report,
    start_launcher,
)
from tallymark.sandbox.programs.program_task import ProgramTask


def run_direct(task: ProgramTask, entrance: int | None, *, walls: bool) -> ProgramEnding:
    """Run one program; with `walls` it is one process, without them there is no restriction.

    `entrance` is a descriptor by which the program enters its memory group, if it has one.
    """
    place = Path(tempfile.mkdtemp(prefix="tally-"))
    home, folder = place / "python", place / "scratch"
    try:
        _furnish(task, home, folder)
        order = task.order(
            home=home, folder=folder, uid=None, walls=walls, alone=False, entrance=entrance
        )
        talk, code = _run_launcher(task, order, folder, entrance)
        read_report(talk, code)
        kept, refused = scratch_folder.collect_files(folder, list(task.keep), task.disk_bytes)
        return ProgramEnding(
            code=code,
            stopped=talk.stopped or _check_disk(task, folder),
            stdout=talk.said_on(talk.stdout),
            stderr=talk.said_on(talk.stderr),
            kept=kept,
            refused=refused,
            wall_s=talk.wall(),
        )
    finally:
        scratch_folder.remove_folder(place)


def _furnish(task: ProgramTask, home: Path, folder: Path) -> None:
    """The program's files, and an environment for its Python."""
    folder.mkdir()
    for name, data in task.files.items():
        scratch_folder.lay_file(folder, name, data)
    (home / "bin").mkdir(parents=True)
    python = interpreter.host_path()
    (home / "pyvenv.cfg").write_text(
        program_view.make_python_settings(python, packages=task.packages)
    )
    for name in program_view.PYTHON_NAMES:
        (home / "bin" / name).symlink_to(python)
    for within, packages in program_view.find_packages(wanted=task.packages).items():
        (home / within).parent.mkdir(parents=True, exist_ok=True)
        (home / within).symlink_to(packages)


def _run_launcher(
    task: ProgramTask, order: bytes, folder: Path, entrance: int | None
) -> tuple[PipeServer, int]:
    with Pipes() as pipes:
        launched = start_launcher(pipes, "become", lent=entrance)
        process, cpu = launched.process, process_usage.CpuMeter()

        def look() -> PassedLimit | None:
            if process_usage.is_memory_passed([process.pid], task.memory_bytes):
                return "memory"
            if cpu.read([process.pid]) > task.cpu_s:
                return "cpu"
            return _check_disk(task, folder, process.pid)

        def kill() -> None:
            """Its group too, until it has been waited for: without walls there may be more."""
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        try:
            talk = converse(pipes, launched, task, order, kill=kill, look=look)
        finally:
            kill()
            code = process.wait()
            kernel_calls.bury_group(process.pid)
    return talk, code


def _check_disk(task: ProgramTask, folder: Path, pid: int | None = None) -> PassedLimit | None:
    """Look at the folder and at the files that a running program has open."""
    most = task.scratch_bytes
    try:
        removed = 0 if pid is None else process_usage.count_removed_bytes(pid, folder, most)
    except PermissionError:
        # Only a process started from an unreadable file can hide, which nothing honest is.
        return "disk"
    return "disk" if scratch_folder.is_overfull(folder, most, removed_bytes=removed) else None
