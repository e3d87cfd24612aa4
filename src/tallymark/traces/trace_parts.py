"""Parts of files of traces that workers can read independently.

Files in our own format are split at line ends without decoding. A part knows its line numbers, so
that messages are the same as when the whole file is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallymark.errors import Place, TraceError
from tallymark.traces.dialects import jsonl
from tallymark.traces.json_records import MAX_RECORD, JsonHead
from tallymark.traces.trace import Trace
from tallymark.traces.trace_formats import detect_format
from tallymark.traces.trace_source import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    Progress,
    open_lines,
    open_source,
)

PART_BYTES = 256 * 1024


class TracePart(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a file."""

    source: str
    start: int
    size: int
    lines_before: int
    digest: bytes
    content: bytes | None = None
    """The lines, for a worker without the file."""


def has_parts(path: Path, format: str | None) -> bool:  # noqa: A002 (the word users expect)
    """True if a file can be split: lines in our own format, not compressed."""
    if format not in (None, jsonl.DIALECT.name) or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            compressed = file.read(4).startswith((GZIP_MAGIC, ZSTD_MAGIC))
    except OSError:  # reading it reports the reason
        return False
    if compressed:
        return False
    with open_source(path, Progress(None, None)) as source:
        if format is None and detect_format(source) is not jsonl.DIALECT:
            return False
        return JsonHead(source.head, whole=source.whole).lines


def cut_lines(path: Path, *, size: int = PART_BYTES, content: bool = False) -> Iterator[TracePart]:
    """The parts of a file of about `size` bytes each; with `content` they contain the lines."""
    start = lines = 0
    try:
        with path.open("rb") as file:
            while data := file.read(size):
                rest = b"" if data.endswith(b"\n") else file.readline(MAX_RECORD + 1)
                data += rest
                yield TracePart(
                    source=str(path),
                    start=start,
                    size=len(data),
                    lines_before=lines,
                    digest=_find_digest(data),
                    content=data if content else None,
                )
                if len(rest) > MAX_RECORD:  # reading ends there
                    return
                start += len(data)
                lines += data.count(b"\n")
    except OSError as error:
        raise _unreadable(str(path), error) from None


def read_part(part: TracePart) -> Iterator[Trace | TraceError]:
    """Every trace of the part, or the error of a record."""
    data = part.content
    if data is None:
        try:
            with Path(part.source).open("rb") as file:
                file.seek(part.start)
                data = file.read(part.size)
        except OSError as error:
            yield _unreadable(part.source, error)
            return
        if _find_digest(data) != part.digest:
            what = "it was changed while it was being read"
            yield TraceError(what, place=Place(source=part.source))
            return
    try:
        yield from jsonl.read(open_lines(data, part.source, part.lines_before))
    except TraceError as error:
        yield error


def _find_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=20).digest()


def _unreadable(source: str, error: OSError) -> TraceError:
    what = f"cannot be read: {error.strerror or error}"
    return TraceError(what, place=Place(source=source))
