"""The records of a JSON file, one at a time, however large the file is.

Files come in two kinds. In the first every line is a JSON document. In the second the file is
one document (or a few, one after another) and the records are the elements of an array in it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tallymark.errors import Place, TraceError
from tallymark.traces.lenient_json import decode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace_source import TraceSource

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
        """The bytes of the next value; empty without `keep`."""
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
        """The end of the pattern's match, reading on until there is one."""
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


RecordPath = tuple[str, ...]


class JsonRecord(msgspec.Struct, frozen=True, gc=False):
    """One record's bytes and where they stand."""

    raw: bytes
    source: TraceSource
    number: int
    """The line, or the record's place among the records, from 1."""
    path: RecordPath | None
    """The array (or the key in `kept`) that the record was cut from; None for a whole line."""

    @property
    def place(self) -> Place:
        """For messages."""
        if self.path is None:
            return self.source.place(line=self.number)
        return self.source.place(part=f"record {self.number}")

    def decode(self) -> Any:
        """The record's value, or a `TraceError` with its place."""
        return decode(self.raw, self.place)


class JsonHead:
    """The structure of a JSON file, from its first bytes."""

    def __init__(self, data: bytes, *, whole: bool) -> None:
        self._data = data
        line, newline, _ = data.partition(b"\n")
        self._line = line.strip() if newline or whole else b""

    @cached_property
    def _first(self) -> Any:
        """The value of the first line; None when that is no complete JSON document."""
        try:
            return decode(self._line)
        except TraceError:
            return None

    @property
    def lines(self) -> bool:
        """True when the first line is a JSON object of its own."""
        return isinstance(self._first, dict)

    @cached_property
    def keys(self) -> Collection[str]:
        """The keys of the first object (in the first array, if there is one), and `key.inner`.

        As far as the head goes: it may be only the beginning of the document.
        """
        keys: list[str] = []
        scanner = JsonScanner(BytesIO(self._data), "")
        with suppress(TraceError):
            if scanner.next() == b"[":
                next(scanner.members(b"]"), None)
            _collect_keys(scanner, keys, "", 2)
        return keys


def read_first_objects(head: bytes, count: int = 20) -> list[dict[str, Any]]:
    """The JSON objects among the first lines, to recognise formats by their content."""
    found = []
    for line in head.splitlines()[:count]:
        with suppress(TraceError):
            value = decode(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def _collect_keys(scanner: JsonScanner, keys: list[str], prefix: str, levels: int) -> None:
    if not levels or scanner.next() != b"{":
        scanner.value(keep=False)
        return
    for _ in scanner.members(b"}"):
        keys.append(prefix + scanner.key())
        _collect_keys(scanner, keys, f"{keys[-1]}.", levels - 1)


def read_records(
    source: TraceSource, arrays: Collection[RecordPath] = (), kept: Collection[RecordPath] = ()
) -> Iterator[JsonRecord]:
    """Every line; or every element of the arrays, and of an array that is the whole document.

    `kept` names further values to return. Without `arrays` a document that
    is not an array is itself the record.
    """
    if (
        source.lines_before is not None
        or JsonHead(source.head, whole=source.whole).lines
        or _is_named_lines(source)
    ):
        return _read_lines(source)
    return _read_elements(source, frozenset(arrays), frozenset(kept))


def _is_named_lines(source: TraceSource) -> bool:
    """True for `.jsonl` and `.ndjson`, whose first line may be a broken one."""
    name = source.name.removesuffix(".gz").removesuffix(".zst")
    start = source.head.partition(b"\n")[0].strip()
    return name.endswith((".jsonl", ".ndjson")) and start != b"{" and not start.startswith(b"[")


def _read_lines(source: TraceSource) -> Iterator[JsonRecord]:
    number = source.lines_before or 0
    # One byte more than allowed shows that a line is too long without reading all of it.
    while line := source.stream.readline(MAX_RECORD + 1):
        number += 1
        if len(line) > MAX_RECORD:
            raise size_error(source.place(line=number))
        if not line.isspace():
            yield JsonRecord(line, source, number, None)


def _read_elements(
    source: TraceSource, arrays: frozenset[RecordPath], kept: frozenset[RecordPath]
) -> Iterator[JsonRecord]:
    scanner = JsonScanner(source.stream, source.name)
    number = 0
    while scanner.next() is not None:
        known = False
        for path, raw in _walk_value(scanner, (), arrays, kept):
            known = True
            if raw is not None:
                number += path not in kept
                yield JsonRecord(raw, source, number, path)
        if not known:
            wanted = " or ".join(sorted(".".join(path) for path in arrays))
            raise TraceError(f"there is no {wanted} in it", place=source.place())


def _walk_value(
    scanner: JsonScanner,
    path: RecordPath,
    arrays: frozenset[RecordPath],
    kept: frozenset[RecordPath],
) -> Iterator[tuple[RecordPath, bytes | None]]:
    """The wanted parts of the value that comes next; an array begins with a None."""
    first = scanner.next()
    if first == b"[" and (path in arrays or not path):
        yield path, None
        for _ in scanner.members(b"]"):
            yield path, scanner.value()
    elif first == b"{" and any(path == array[: len(path)] != array for array in arrays):
        for _ in scanner.members(b"}"):
            yield from _walk_value(scanner, (*path, scanner.key()), arrays, kept)
    elif path in kept or not path:
        yield path, scanner.value()
    else:
        scanner.value(keep=False)
