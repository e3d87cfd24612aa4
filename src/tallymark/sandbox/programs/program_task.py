"""`ProgramTask`: one program to run, checked, and written down for the launcher."""

from __future__ import annotations

import json
import math
import resource
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput
from tallymark.sandbox import seccomp
from tallymark.sandbox.programs import program_view

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.programs.launcher_process import Dialogue

_MB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTask:
    """A request to run a program, with every file read."""

    command: tuple[str, ...]
    files: dict[str, bytes]
    stdin: bytes
    limits: Limits
    keep: tuple[str, ...]
    packages: bool
    dialogue: Dialogue | None = None

    @property
    def disk_bytes(self) -> int:
        """Limit of the files written before the run, and of those returned."""
        return int(self.limits.disk_mb * _MB)

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch folder, a little larger, so that the files always fit."""
        return self.disk_bytes + 2**16 + 2**13 * len(self.files)

    @property
    def output_bytes(self) -> int:
        """Limit of both output streams together."""
        return int(self.limits.output_mb * _MB)

    @property
    def memory_bytes(self) -> int:
        """Limit of all its processes together."""
        return self.limits.memory_mb * _MB

    @property
    def cpu_s(self) -> float:
        """Processor seconds of all its processes together."""
        return self.limits.wall_s if self.limits.cpu_s is None else self.limits.cpu_s

    def order(
        self,
        *,
        home: Path,
        folder: Path,
        uid: int | None,
        walls: bool,
        alone: bool,
        entrance: int | None,
    ) -> bytes:
        """The order for the launcher, a line of JSON. `home` is Python's place, `folder` the
        scratch.

        `walls` requests Landlock and seccomp; `alone` is true in a namespace of its own, where it
        may have processes and own the files in view. `entrance` is a descriptor by which the
        program enters its memory group, if it has one.
        """
        seen = program_view.list_readable(home, packages=self.packages, alone=alone)
        devices = [str(each) for each in program_view.DEVICES]
        devices += [str(program_view.ZERO)] * alone
        order: dict[str, Any] = {
            "command": self.command,
            "environment": program_view.make_environment(home, folder, alone=alone),
            "folder": str(folder),
            "uid": uid,
            "entrance": entrance,
            "rlimits": self._rlimits(alone=alone),
            "walls": walls,
            "read": devices,
            "write": [str(folder), *devices],
            "execute": [*map(str, seen), str(folder)],
            "open_files": self.limits.open_files,
            "cpu_s": self.cpu_s,
            "memory_bytes": self.memory_bytes,
            "keep": self.keep,
            "keep_bytes": self.disk_bytes,
            "files": [[name, len(data)] for name, data in self.files.items()],
        }
        if walls:
            several = alone and self.limits.processes > 1
            code = seccomp.program(fork=several, exec=True, attributes=alone)
            order["seccomp"] = code.hex()
        return json.dumps(order).encode() + b"\n"

    def _rlimits(self, *, alone: bool) -> list[tuple[int, int]]:
        """Limits per process, looser than the watched ones: a fallback for sudden use."""
        limits = [
            (resource.RLIMIT_AS, 2 * self.memory_bytes + 64 * _MB),
            (resource.RLIMIT_CPU, math.ceil(self.cpu_s) + 1),
            (resource.RLIMIT_FSIZE, self.scratch_bytes + 2**16),
            (resource.RLIMIT_NOFILE, self.limits.open_files),
            (resource.RLIMIT_CORE, 0),
        ]
        if alone:
            # Without a namespace it would count all that the user runs, on the whole machine.
            # Counted by user and namespace: the launcher is one of them.
            limits.append((resource.RLIMIT_NPROC, self.limits.processes + 1))
        return limits


def make_task(  # noqa: PLR0913 (as `run_program`)
    command: Sequence[str],
    *,
    files: Mapping[str, bytes | str | Path],
    stdin: bytes | str,
    limits: Limits,
    keep: Sequence[str],
    packages: bool,
    dialogue: Dialogue | None = None,
) -> ProgramTask:
    """Check a request and read its files."""
    if isinstance(command, str) or not command:
        raise InvalidInput("a program's command is a list of words, like ['python', 'main.py']")
    for word in command:
        if not word or "\0" in word:
            raise InvalidInput(f"a program's command cannot have the word {word!r}")
    for name in (*files, *keep):
        _check_name(name)
    _check_tree(files)
    task = ProgramTask(
        command=tuple(command),
        files={name: _read_content(name, source, limits) for name, source in files.items()},
        stdin=stdin.encode() if isinstance(stdin, str) else bytes(stdin),
        limits=limits,
        keep=tuple(dict.fromkeys(keep)),
        packages=packages,
        dialogue=dialogue,
    )
    if sum(map(len, task.files.values())) > task.disk_bytes:
        message = f"the program's files are more than its disk limit of {limits.disk_mb} MB"
        raise InvalidInput(message, hint="raise disk_mb in its limits")
    return task


def _check_name(name: str) -> None:
    parts = name.split("/")
    if (
        PurePosixPath(name).is_absolute()
        or any(part in {"", ".", ".."} or len(part.encode()) > 255 for part in parts)
        or any(not sign.isprintable() for sign in name)
        or len(parts) > 32
    ):
        message = f"{name!r} cannot be a file of a program"
        raise InvalidInput(message, hint="name it relative to its folder, without '..'")


def _check_tree(files: Mapping[str, object]) -> None:
    for name in files:
        for parent in PurePosixPath(name).parents:
            if str(parent) in files:
                message = f"{str(parent)!r} is both a file and a folder of a program"
                raise InvalidInput(message, hint=f"because of {name!r}; rename one of them")


def _read_content(name: str, source: bytes | str | Path, limits: Limits) -> bytes:
    if isinstance(source, str):
        return source.encode()
    if not isinstance(source, Path):
        return bytes(source)
    try:
        if source.stat().st_size > limits.disk_mb * _MB:
            message = f"{source} is larger than the program's disk limit of {limits.disk_mb} MB"
            raise InvalidInput(message, hint="raise disk_mb in its limits")
        return source.read_bytes()
    except OSError as error:
        message = f"cannot read {source}, the program's {name!r}: {error.strerror}"
        raise InvalidInput(message, hint="check the path") from None
