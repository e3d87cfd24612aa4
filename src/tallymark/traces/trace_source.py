"""Bytes of a file or stream: decompressed, counted for progress, with a look at the first ones.

gzip and zstd are read as streams. Where their data is damaged or cut short, the content ends and
`TraceSource.damage` has the reason.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import CutShort, Place, TraceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

Buffered: TypeAlias = "io.BufferedReader[_Filling]"
OnProgress = Callable[[int, int | None], None]
_BUFFER = 1024 * 1024
_LOOK = 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
DAMAGE = (OSError, EOFError, zlib.error, zstd.ZstdError)


class Progress:
    """Number of bytes read, over all files of one call."""

    def __init__(self, callback: OnProgress | None, total: int | None) -> None:
        self._callback = callback
        self._total = total
        self._before = self._here = 0

    def at(self, position: int) -> None:
        """The current file was read up to a position; going back does not count."""
        if position > self._here:
            self._here = position
            if self._callback is not None:
                self._callback(self._before + position, self._total)

    def next_file(self, size: int | None) -> None:
        """The current file is done, all of it where its size is known."""
        self.at(size or 0)
        self._before, self._here = self._before + self._here, 0


class TraceSource:
    """One file or stream of traces; never more of it than a buffer is in memory."""

    def __init__(
        self,
        name: str,
        stream: Buffered,
        progress: Progress,
        path: Path | None,
        lines_before: int | None = None,
    ) -> None:
        self.name = name
        self.lines_before = lines_before
        """Number of lines before these in the file; None if the source is a whole file."""
        self.stream = stream
        """The bytes, already decompressed."""
        self.progress = progress
        self.path = path
        """The file; None for a stream, whose name may come from its sender."""
        if stream.peek().startswith(_BYTE_ORDER_MARK):
            stream.read(len(_BYTE_ORDER_MARK))
        self.head = stream.peek()
        """The first bytes of the content, at most a megabyte."""
        self.whole = len(self.head) < _BUFFER - len(_BYTE_ORDER_MARK)
        """True when `head` is all there is."""

    @property
    def damage(self) -> TraceError | None:
        """Why the content ended before its end, once all that can be read has been."""
        return self.stream.raw.damage if self.stream.raw.ended else None

    def place(self, line: int | None = None, part: str = "") -> Place:
        """The place of a record: a line of the file, or a named part of it."""
        return Place(source=f"{self.name}:{part}" if part else self.name, line=line)

    @contextmanager
    def seekable(self) -> Iterator[IO[bytes]]:
        """The content for reading here and there.

        What cannot be read so as it is, a stream or a compressed file, is copied to disk first.
        """
        if self.path is not None and self.path.is_file():
            with self.path.open("rb") as file:
                # Where these differ, the file is compressed and `head` is not.
                if file.read(_LOOK) == self.head[:_LOOK]:
                    yield file
                    return
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(self.stream, file)
            file.seek(0)
            yield file


@contextmanager
def open_source(item: Path | IO[bytes], progress: Progress) -> Iterator[TraceSource]:
    """A source over a path or a binary stream; a stream is left open for its owner."""
    if not isinstance(item, Path):
        name = getattr(item, "name", None)
        name = name if isinstance(name, str) and name else "<stream>"
        yield TraceSource(name, _open_content(item, name, progress), progress, None)
        progress.next_file(None)
        return
    try:
        file = item.open("rb", buffering=0)
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise TraceError(what, place=Place(source=str(item))) from None
    with file:
        yield TraceSource(str(item), _open_content(file, str(item), progress), progress, item)
        progress.next_file(os.fstat(file.fileno()).st_size)


def open_lines(data: bytes, name: str, lines_before: int) -> TraceSource:
    """A source over some lines of a file."""
    nowhere = Progress(None, None)
    content = _open_content(io.BytesIO(data), name, nowhere)
    return TraceSource(name, content, nowhere, None, lines_before)


def _open_content(
    raw: IO[bytes] | io.BufferedIOBase | io.RawIOBase, name: str, progress: Progress
) -> Buffered:
    """The stream, buffered and counted, and decompressed where it is compressed."""
    # Progress counts the bytes of the file, so it is taken before anything is decompressed.
    counted = io.BufferedReader(_Filling(raw.read, name, progress), _BUFFER)
    inner = open_decompressed(counted.peek(), counted)
    # `read1`: where the data is damaged, `read` loses what it had expanded before that.
    return counted if inner is None else io.BufferedReader(_Filling(inner.read1, name), _BUFFER)


class _Filling(io.RawIOBase):
    """Fills every request to the brim, so that one look at the buffer sees a full head."""

    def __init__(
        self,
        read: Callable[[int], bytes | None],
        name: str,
        progress: Progress | None = None,
    ) -> None:
        self._read_some = read
        self._name = name
        self._progress = progress
        self._position = 0
        self.damage: TraceError | None = None
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Not raised: what came before it in this buffer would be lost.
        self.ended = self.damage is not None
        filled = 0
        while filled < len(buffer) and (chunk := self._read(len(buffer) - filled)):
            buffer[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
        self._position += filled
        if self._progress is not None:
            self._progress.at(self._position)
        return filled

    def _read(self, size: int) -> bytes:
        if self.damage is None:
            try:
                return self._read_some(size) or b""
            except DAMAGE as error:
                kind, what = (
                    (CutShort, "cut short")
                    if isinstance(error, EOFError)
                    else (TraceError, "damaged")
                )
                said = f"{what}, and all that is whole before that was read: {error}"
                self.damage = kind(said, place=Place(source=self._name))
        return b""


def open_decompressed(head: bytes, stream: IO[bytes]) -> Any:
    """A reader of a compressed stream; None if it is not compressed."""
    if head.startswith(GZIP_MAGIC):
        import gzip  # noqa: PLC0415 (only for compressed files)

        return gzip.GzipFile(fileobj=stream)
    return zstd.ZstdFile(stream) if head.startswith(ZSTD_MAGIC) else None


def decompress_zstd(data: bytes, limit: int) -> bytes:
    """The content of zstd frames; an error if it is larger than the limit."""
    # Bounded while it grows, because hostile bytes grow ten thousandfold.
    content = zstd.ZstdFile(io.BytesIO(data)).read(limit + 1)
    if len(content) > limit:
        raise OSError(f"it expands to more than {limit >> 20} MB")
    return content
