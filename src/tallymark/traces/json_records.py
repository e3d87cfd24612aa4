"""The records of a JSON file, one at a time, however large the file is.

Files come in two kinds. In the first every line is a JSON document. In the second the file is
one document (or a few, one after another) and the records are the elements of an array in it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import Place, TraceError
from tallymark.traces.json_scanner import MAX_RECORD, JsonScanner, size_error
from tallymark.traces.lenient_json import decode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace_source import TraceSource

RecordPath = tuple[str, ...]


class JsonRecord(msgspec.Struct, frozen=True, gc=False):
    """One record's bytes and where they stand."""

    raw: bytes
    source: TraceSource
    number: int
    """The line, or the record's place among the records, from 1."""
    path: RecordPath | None
    """The array (or the kept key) that the record was cut from; None for a whole line."""

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
    """What the first bytes of a file tell about the JSON in it."""

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
    """The JSON objects among the first lines, to tell formats apart by what their lines say."""
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

    `kept` names values beside the arrays that are wanted too. Without `arrays` a document that
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
    """True when only the name says "one record a line": the first line may be a broken one."""
    name = source.name.removesuffix(".gz").removesuffix(".zst")
    start = source.head.partition(b"\n")[0].strip()
    return name.endswith((".jsonl", ".ndjson")) and start != b"{" and not start.startswith(b"[")


def _read_lines(source: TraceSource) -> Iterator[JsonRecord]:
    number = source.lines_before or 0
    # One byte more than allowed tells a line that is too long, without reading all of it.
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
