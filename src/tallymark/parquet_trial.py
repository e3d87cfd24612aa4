"""Strangers' Parquet files, read to their end by another process before this one does.

pyarrow ends the process that reads some damaged files, which nobody can catch; and what asks for
too much memory asks for it there. See docs/decisions/0052-parquet.md.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.parquet_rows import Columns

_REFUSED = 2


def try_parquet(path: Path, columns: Columns) -> None:
    """Refuses what cannot be read, in the words of `ParquetRows`, or what ends its reader."""
    given = msgspec.json.encode([str(path), dict(columns)]).decode()
    command = [sys.executable, "-P", "-m", __name__, given]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603 (ours)
    told = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    if done.returncode == _REFUSED:
        problem, hint = told[-1]
        raise InvalidInput(problem, hint=hint)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        problem = f"{told[-1]} is damaged: what reads Parquet breaks off at it ({name})"
        raise InvalidInput(problem, hint="get it anew from where it was written")


def _try(given: str) -> None:
    """In the other process: says each file before it is read."""
    from tallymark.parquet_rows import ParquetRows, list_parts  # noqa: PLC0415 (pyarrow)

    name, columns = msgspec.json.decode(given)
    try:
        for part in list_parts(Path(name)):
            _tell(str(part))
            for _ in ParquetRows(part, columns):
                pass
    except InvalidInput as error:
        problem = error.problems[0]
        _tell([problem.message, problem.hint])
        sys.exit(_REFUSED)


def _tell(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def _leave_no_core() -> None:
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 (not everywhere)

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _leave_no_core()
    _try(sys.argv[1])
