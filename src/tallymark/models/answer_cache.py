"""The response cache: an SQLite file of answers that need not be asked, or paid, for again.

An answer is known by everything that could change it: the model as named, its pricing, the whole
conversation, settings, MCP servers and the epoch. What a `python/` or `cmd/` model does may change
without its name changing: the cache cannot know.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from tallymark.abandonable_calls import call_in_thread
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.event_loops import LoopLocal
from tallymark.models.model import Answer, Loadable

if TYPE_CHECKING:
    from tallymark.models.model import Model, Redact, Request
    from tallymark.models.token_prices import Pricing

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, answer BLOB) WITHOUT ROWID"
_FORM = b"1"
"""Part of every key: raised when stored answers could no longer be read."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _CacheFiles:
    """One event loop's connections."""

    reader: sqlite3.Connection
    writer: sqlite3.Connection
    lock: Lock = field(default_factory=Lock)
    """Threads store answers through one writer, and `close` must not interrupt one."""

    def close(self) -> None:
        with self.lock:
            self.reader.close()
            self.writer.close()


class CachedModel:
    """A model that is asked only questions without a stored answer.

    Runs at the same time may share the file, and a killed one leaves it whole: SQLite's journal
    sees to both. A file that fails in the middle costs the saving, not the answer.
    """

    def __init__(
        self,
        model: Model,
        path: str | Path,
        pricing: Pricing | None = None,
        redact: Redact | None = None,
    ) -> None:
        self.name = model.name
        self._model = model
        self._path = Path(path)
        self._pricing = pricing
        self._redact = redact
        try:
            self._files = LoopLocal(self._open_files, first=self._open_files())
        except WorkFailed as error:  # a wrong path, found before any request
            raise InvalidInput(error.problems) from None

    def load(self) -> None:
        """Load the wrapped model."""
        if isinstance(self._model, Loadable):
            self._model.load()

    async def answer(self, request: Request) -> Answer:
        """The stored answer, marked `cached`, or the model's, stored before it is given.

        One that holds a secret is not stored: without it, checks could judge it differently.
        """
        key, files = self._make_key(request), self._files.get()
        found = self._find_answer(files, key)
        if found is not None:
            return msgspec.structs.replace(found, cached=True)
        answer = await self._model.answer(request)
        if self._redact is None or self._redact(answer) == answer:
            await call_in_thread(partial(self._keep_answer, files, key, answer))
        return answer

    async def close(self) -> None:
        """Close the model and the running loop's connections; a later request opens new ones."""
        self._files.get()  # also the first ones, when nothing was asked
        files = self._files.pop()
        if files is not None:
            files.close()
        await self._model.close()

    def _make_key(self, request: Request) -> bytes:
        parts = (self.name, self._pricing, request)
        whole = msgspec.json.encode(parts, enc_hook=str, order="sorted")
        return blake2b(_FORM + whole, digest_size=20).digest()

    def _open_files(self) -> _CacheFiles:
        # Writing waits for other writers, so it has a thread; reading never waits.
        return _CacheFiles(self._open_file(), self._open_file())

    def _open_file(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Autocommit: each answer is its own transaction, so a killed run loses none.
            file = sqlite3.connect(
                self._path, timeout=10, isolation_level=None, check_same_thread=False
            )
            file.execute("PRAGMA journal_mode=WAL")
            # A power cut may cost the newest answers, never the file: they can be asked again.
            file.execute("PRAGMA synchronous=NORMAL")
            file.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise WorkFailed(
                f"the cache {self._path} cannot be used: {error}",
                hint="name another file, or delete this one if it is a broken cache",
            ) from None
        return file

    def _find_answer(self, files: _CacheFiles, key: bytes) -> Answer | None:
        try:
            found = files.reader.execute("SELECT answer FROM answers WHERE key = ?", (key,))
            row = found.fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=Answer)
        except (sqlite3.Error, msgspec.DecodeError) as error:
            _log.warning("the cache %s could not be read: %s", self._path, error)
            return None

    def _keep_answer(self, files: _CacheFiles, key: bytes, answer: Answer) -> None:
        row = (key, msgspec.json.encode(answer, enc_hook=str))
        try:
            with files.lock:
                files.writer.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", row)
        except sqlite3.Error as error:
            _log.warning("the cache %s could not be written: %s", self._path, error)
