"""Recording: every answer of a model, appended to a file in the form that `replay/` reads."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.models.model import Loadable
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.models.model import Answer, Model, Redact, Request


class RecordedModel:
    """A model whose answers are also recorded. Errors are not: those requests are sent again.

    A line is one write under a lock, so runs at the same time may share a file, and a killed run
    leaves no half line behind it.
    """

    def __init__(self, model: Model, path: str | Path, redact: Redact | None = None) -> None:
        self.name = model.name
        self._model = model
        self._redact = redact
        self._path = Path(path)
        self._file: int | None = None
        # The file's own lock is between processes: threads of one share the descriptor.
        self._lock = Lock()
        try:
            self._open()
        except WorkFailed as error:  # a wrong path, found before any request
            raise InvalidInput(error.problems) from None

    def load(self) -> None:
        """Load the wrapped model."""
        if isinstance(self._model, Loadable):
            self._model.load()

    async def answer(self, request: Request) -> Answer:
        """The model's answer, on disk before it is returned."""
        answer = await self._model.answer(request)
        entry = make_replay_line(request, answer)
        line = msgspec.json.encode(entry if self._redact is None else self._redact(entry)) + b"\n"
        with self._lock:
            self._append(line)
        return answer

    async def close(self) -> None:
        """Close the model and the file; a later answer opens them again."""
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)
        await self._model.close()

    def _open(self) -> int:
        if self._file is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            except OSError as error:
                raise self._make_failure(error) from None
        return self._file

    def _append(self, line: bytes) -> None:
        file = self._open()
        try:
            # Also while reading the last byte and removing a partial line, not only for the write.
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                size = os.fstat(file).st_size
                if size and os.pread(file, 1, size - 1) != b"\n":
                    line = b"\n" + line  # the last writer did not end its line
                if os.write(file, line) < len(line):
                    os.ftruncate(file, size)  # a full disk took a part
                    raise OSError(None, "the disk is full")
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        except OSError as error:
            raise self._make_failure(error) from None

    def _make_failure(self, error: OSError) -> WorkFailed:
        return WorkFailed(f"answers cannot be recorded in {self._path}: {error.strerror}")


def make_replay_line(request: Request, answer: Answer) -> dict[str, Any]:
    """A request and its answer as one line of a replay file; what is not known is left out."""
    spans = Trace(spans=list(answer.spans)).to_dict().get("spans")
    alone = len(request.messages) == 1 and request.messages[0].role == "user"
    line = {
        **(
            {"prompt": request.prompt}
            if alone
            else {"messages": msgspec.to_builtins(request.messages)}
        ),
        "epoch": request.epoch,
        "output": answer.output,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "tokens_counted_by": answer.tokens_counted_by,
        "cost": answer.cost,
        "latency": answer.latency,
        "model": answer.model,
        "spans": spans,
    }
    return {key: value for key, value in line.items() if value is not None}
