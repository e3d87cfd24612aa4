"""Cutting JSON values out of a stream by their brackets and quotes, without decoding them."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from tallymark.errors import Place, TraceError
from tallymark.traces.lenient_json import decode

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORD = 512 * 1024 * 1024
"""The largest single record (a line, a sample, a batch) that is taken into memory."""

_CHUNK = 1024 * 1024
_OPEN = b"[{"
# Possessive (`*+`, `++`): nothing is tried twice, so hostile text takes linear time only.
_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Up to what ends it: at the end of the buffer, half a number would look like a whole one.
_SCALAR = re.compile(rb"[^][{}:,\"\s]++(?=[][{}:,\"\s])")
_BRACKET = re.compile(rb'(?:[^]["{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+[][{}]', re.DOTALL)


def size_error(place: Place) -> TraceError:
    """A record that would not fit into memory."""
    return TraceError(f"a record of more than {MAX_RECORD >> 20} MB is not read", place=place)


class JsonScanner:
    """Stands before a value of the stream and takes it, enters it or passes over it."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        self._buffer = b""
        self._at = 0
        self._dropped = 0

    def next(self) -> bytes | None:
        """The first byte of what comes next, white space passed over; None at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            if not self._read_more():
                return None

    def members(self, closing: bytes) -> Iterator[None]:
        """Enters an array or object and stands at each member in turn; the caller reads it."""
        self._at += 1
        if self._take_if(closing):
            return
        while True:
            yield
            if self._take_if(closing):
                return
            if not self._take_if(b","):
                raise self._syntax_error(f"expected a comma or {closing.decode()}")

    def key(self) -> str:
        """An object's key, with its colon."""
        if self.next() != b'"':
            raise self._syntax_error("expected a key in double quotes")
        key = decode(self.value(), Place(source=self._name))
        if not self._take_if(b":"):
            raise self._syntax_error("expected a colon")
        return str(key)

    def value(self, *, keep: bool = True) -> bytes:
        """The bytes of the value that comes next; dropped on the way unless they are kept."""
        first = self.next()
        if first is None:
            raise self._syntax_error("it ends too early")
        if first in _OPEN:
            return self._take_container(keep=keep)
        return self._cut(self._read_match(_STRING if first == b'"' else _SCALAR, 0))

    def _take_container(self, *, keep: bool) -> bytes:
        depth = offset = 0
        while True:
            found = _BRACKET.match(self._buffer, self._at + offset)
            end = found.end() if found else self._read_match(_BRACKET, offset)
            depth += 1 if self._buffer[end - 1 : end] in _OPEN else -1
            if not depth:
                return self._cut(end)
            if keep:
                offset = end - self._at
            else:
                self._at = end

    def _read_match(self, pattern: re.Pattern[bytes], offset: int) -> int:
        """Where the pattern's match ends, reading on until there is one."""
        while True:
            found = pattern.match(self._buffer, self._at + offset)
            if found:
                return found.end()
            if len(self._buffer) - self._at > MAX_RECORD:
                raise size_error(self._place)
            if not self._read_more():
                raise self._syntax_error("it ends too early")

    def _cut(self, end: int) -> bytes:
        raw = self._buffer[self._at : end]
        self._at = end
        return raw

    def _take_if(self, wanted: bytes) -> bool:
        taken = self.next() == wanted
        self._at += taken
        return taken

    def _read_more(self) -> bool:
        """Reads on; more at a time the longer the value is, so that long ones stay linear."""
        rest = self._buffer[self._at :]
        chunk = self._stream.read(max(_CHUNK, len(rest)))
        self._dropped += self._at
        self._buffer, self._at = rest + chunk, 0
        return bool(chunk)

    @property
    def _place(self) -> Place:
        return Place(source=f"{self._name}:byte {self._dropped + self._at + 1}")

    def _syntax_error(self, what: str) -> TraceError:
        return TraceError(f"not valid JSON: {what}", place=self._place)
