"""A trial read of a Parquet file in another process, before this one reads it.

pyarrow ends the process that reads some damaged files, which cannot be caught; and a file that
requests too much memory does so there. See docs/decisions/0052-parquet.md.
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
    """Refuse a file that `ParquetRows` refuses, or that ends the process which reads it."""
    given = msgspec.json.encode([str(path), dict(columns)]).decode()
    command = [sys.executable, "-P", "-m", __name__, given]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603 (ours)
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    if done.returncode == _REFUSED:
        problem, hint = lines[-1]
        raise InvalidInput(problem, hint=hint)
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        problem = f"{lines[-1]} is damaged: the Parquet reader ended at it ({name})"
        raise InvalidInput(problem, hint="get a new copy of it")


def _try(given: str) -> None:
    """In the other process: print the name of each file before it is read."""
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
