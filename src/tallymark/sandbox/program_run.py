"""`run_program`: a submitted program or an evaluator's script, in a sandbox made for that run.

Files in; output, exit status and named files out. Nothing outlives the run.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.instrumentation import watch
from tallymark.sandbox.kernel_calls import name_signal
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.machine_probe import MEMORY_GROUPS, probe
from tallymark.sandbox.memory_group import MemoryGroup, NoGroup, find_parent
from tallymark.sandbox.policy import Policy, choose_policy
from tallymark.sandbox.programs.bubblewrap_run import run_in_bubblewrap
from tallymark.sandbox.programs.direct_run import run_direct
from tallymark.sandbox.programs.launcher_process import Dialogue, PassedLimit, ProgramEnding
from tallymark.sandbox.programs.program_task import ProgramTask, make_task

PROGRAM_LIMITS = Limits(
    wall_s=10.0, memory_mb=512, processes=16, open_files=256, output_mb=1.0, disk_mb=64.0
)
_SIGNALS_OF_LIMITS: dict[int, PassedLimit] = {-signal.SIGXCPU: "cpu", -signal.SIGXFSZ: "disk"}
_NO_FILES: Mapping[str, bytes | str | Path] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOutcome:
    """The end of a program and its output. `stopped` names the limit that it exceeded."""

    exit_code: int | None
    """None when a signal ended it."""
    signal: str | None
    stopped: PassedLimit | None
    stdout: bytes
    stderr: bytes
    kept: dict[str, bytes]
    wall_s: float
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if it ended with exit code 0, within all limits."""
        return self.exit_code == 0 and self.stopped is None


def run_program(  # noqa: PLR0913 (each says one thing about the run)
    command: Sequence[str],
    *,
    files: Mapping[str, bytes | str | Path] = _NO_FILES,
    stdin: bytes | str = b"",
    limits: Limits = PROGRAM_LIMITS,
    keep: Sequence[str] = (),
    packages: bool = False,
    policy: Policy | None = None,
    dialogue: Dialogue | None = None,
) -> ProgramOutcome:
    """Run a command in a new sandbox, in a folder with these files, and wait for its end.

    `python` is this Python, without packages unless `packages` lets it see those installed here.
    `keep` names files to read back when it has ended. A `dialogue` sends more input while it
    runs: `wall_s` is the time until the first turn, and each turn has its own. Raises InvalidInput
    for a wrong request, and WorkFailed where no sandbox can be had.
    """
    task = make_task(
        command,
        files=files,
        stdin=stdin,
        limits=limits,
        keep=keep,
        packages=packages,
        dialogue=dialogue,
    )
    chosen = choose_policy() if policy is None else policy
    with watch("sandbox", kind="program") as work:
        try:
            ended = _run_task(task, chosen)
        except (InvalidInput, WorkFailed):
            raise
        except Exception as error:
            # No process, memory or disk available, or a mistake of ours: never the program's fault.
            work.outcomes["unusable"] += 1
            raise WorkFailed(f"the sandbox cannot be used: {error}") from error
        stopped = ended.stopped or _SIGNALS_OF_LIMITS.get(ended.code)
        work.outcomes[stopped or ("ok" if ended.code == 0 else "failed")] += 1
    code = ended.code if ended.stopped is None else -signal.SIGKILL
    left_out = (f"{name!r} is not stored: {why}" for name, why in ended.refused.items())
    return ProgramOutcome(
        exit_code=code if code >= 0 else None,
        signal=name_signal(-code) if code < 0 else None,
        stopped=stopped,
        stdout=ended.stdout,
        stderr=ended.stderr,
        kept=ended.kept,
        wall_s=ended.wall_s,
        warnings=(*chosen.warnings, *left_out),
    )


def _run_task(task: ProgramTask, policy: Policy) -> ProgramEnding:
    if policy.backend == "landlock" and task.limits.processes > 1:
        raise WorkFailed(
            f"without bubblewrap a program may have 1 process, not {task.limits.processes}",
            hint="install the Debian package bubblewrap, or set processes=1 in its limits",
        )
    # A scratch folder in memory is counted with the rest, and has a limit of its own.
    scratch = task.scratch_bytes if policy.backend == "bubblewrap" else 0
    with _open_group(task.memory_bytes + scratch) as group:
        entrance = None if group is None else group.entrance
        if policy.backend == "bubblewrap":
            ended = run_in_bubblewrap(task, entrance)
        else:
            ended = run_direct(task, entrance, walls=policy.backend == "landlock")
        if group is not None and ended.stopped is None and group.is_limit_passed():
            return replace(ended, stopped="memory")
        if group is not None and ended.code == -signal.SIGKILL and group.is_machine_full():
            raise WorkFailed(
                "the machine ran out of memory while a program ran within its limit",
                hint="give the machine more memory, or run fewer programs at once",
            )
        return ended


@contextmanager
def _open_group(most: int) -> Iterator[MemoryGroup | None]:
    """A memory group with this limit in bytes; None where the machine has none."""
    group = None
    if probe().has(MEMORY_GROUPS):
        with suppress(OSError, NoGroup):  # as many as there may be, or our own was changed
            group = MemoryGroup(find_parent(), most)
    try:
        yield group
    finally:
        if group is not None:
            group.close()
