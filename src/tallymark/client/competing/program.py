"""Agents that are programs: run with a time limit, bounded output, and all processes ended.

A program gets the brief on standard input and in variables; its answer is the file or folder that
`TALLY_ANSWER` names, or else its output. Its standard error is shown and stored.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tallymark.client.competing import process_supervisor
from tallymark.errors import WorkFailed
from tallymark.text import clean

GRACE_S = 2.0
"""Seconds for a program to finish after the signal to end."""
LOG = "agent.log"
MOST_LOGGED = 10_000_000
MOST_SHOWN = 200_000
_LONGEST_LINE = 10_000
_CHUNK = 1 << 16


@dataclass
class ProgramEnd:
    """End of a program, with its output."""

    code: int
    seconds: float
    output: bytes
    """Its standard output; one byte more than allowed if it was longer."""
    timed_out: bool = False
    last_words: str = ""
    """The last line of its standard error."""


def run_program(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    most_output: int,
    show: Callable[[str], None],
) -> ProgramEnd:
    """Run a program in the current folder, and end it with all processes that it started."""
    started = [*words]
    if sys.platform == "linux":
        started = [sys.executable, "-IS", process_supervisor.__file__, str(GRACE_S), *words]
    began = time.monotonic()
    try:
        with (
            (folder / "brief.json").open("rb") as brief,
            subprocess.Popen(  # noqa: S603 (the user's own agent)
                started,
                stdin=brief,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                start_new_session=True,
            ) as process,
            (folder / LOG).open("ab") as log,
        ):
            heard = _Heard(most_output, log.write, show)
            try:
                timed_out = not heard.listen(process, began + seconds)
            finally:
                _end(process)
    except OSError as error:
        named = error.filename or words[0]
        raise WorkFailed(f"{named} cannot be started: {error.strerror}") from None
    return ProgramEnd(
        code=process.returncode,
        seconds=time.monotonic() - began,
        output=bytes(heard.output),
        timed_out=timed_out,
        last_words=heard.last_words,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the supervisor to end all processes; kill its group if it does not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S + 15)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _Heard:
    """Reads the output of a running program, with bounded memory."""

    def __init__(
        self, most: int, log: Callable[[bytes], object], show: Callable[[str], None]
    ) -> None:
        self.output = bytearray()
        self.last_words = ""
        self._most = most
        self._log = log
        self._show = show
        self._logged = self._shown = 0
        self._line = b""

    def listen(self, process: subprocess.Popen[bytes], until: float) -> bool:
        """Read until all writers have closed (True) or the time is up (False)."""
        assert process.stdout is not None  # noqa: S101 (for the type checker)
        assert process.stderr is not None  # noqa: S101
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, self._keep)
            selector.register(process.stderr, selectors.EVENT_READ, self._tell)
            while selector.get_map():
                left = until - time.monotonic()
                if left <= 0:
                    return False
                for key, _ in selector.select(left):
                    data = os.read(key.fd, _CHUNK)
                    if data:
                        key.data(data)
                    else:
                        selector.unregister(key.fileobj)
            self._tell(b"\n" if self._line else b"")
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _keep(self, data: bytes) -> None:
        self.output += data[: self._most + 1 - len(self.output)]

    def _tell(self, data: bytes) -> None:
        if self._logged < MOST_LOGGED:
            self._log(data[: MOST_LOGGED - self._logged])
        self._logged += len(data)
        *lines, self._line = (self._line + data).split(b"\n")
        if len(self._line) > _LONGEST_LINE:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            text = clean(line[:_LONGEST_LINE].decode(errors="replace"))
            self.last_words = text.strip() or self.last_words
            if self._shown <= MOST_SHOWN:
                self._show(text)
                self._shown += len(line) + 1
                if self._shown > MOST_SHOWN:
                    self._show(f"... (more in {LOG})")
