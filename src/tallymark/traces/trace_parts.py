"""Parts of files of traces that can be read apart from each other: for workers, and larger files.

Lines of our own shape are cut at their ends, by the bytes alone; whoever reads a part knows which
lines these are, so that messages say the same as in one reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallymark.errors import Place, TraceError
from tallymark.traces.dialects import jsonl
from tallymark.traces.json_records import JsonHead
from tallymark.traces.json_scanner import MAX_RECORD
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
    """The lines themselves, for whoever does not have the file."""


def has_parts(path: Path, format: str | None) -> bool:  # noqa: A002 (the word users expect)
    """Whether a file can be cut: lines of our own shape, and not compressed."""
    if format not in (None, jsonl.DIALECT.name) or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            compressed = file.read(4).startswith((GZIP_MAGIC, ZSTD_MAGIC))
    except OSError:  # whoever reads it says why
        return False
    if compressed:
        return False
    with open_source(path, Progress(None, None)) as source:
        if format is None and detect_format(source) is not jsonl.DIALECT:
            return False
        return JsonHead(source.head, whole=source.whole).lines


def cut_lines(path: Path, *, size: int = PART_BYTES, content: bool = False) -> Iterator[TracePart]:
    """The parts of a file, each of about so many bytes; with `content`, the lines are in them."""
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
    """What is in it: each trace, or why there is none."""
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
