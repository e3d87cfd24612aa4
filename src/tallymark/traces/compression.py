"""gzip and zstd, read as streams; data that is damaged or cut short raises one of `DAMAGE`."""

from __future__ import annotations

import io
import zlib
from typing import IO, Any

GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# What damaged data, or data cut short, raises here and in the libraries.
DAMAGE = (OSError, EOFError, zlib.error)

_COMPRESSED_CHUNK = 2048
"""Compressed bytes taken at a time: few, because hostile ones grow ten thousandfold."""


def open_decompressed(head: bytes, stream: IO[bytes]) -> io.BufferedIOBase | io.RawIOBase | None:
    """What a compressed stream holds, by its first bytes; None when it is not compressed."""
    if head.startswith(GZIP_MAGIC):
        import gzip  # noqa: PLC0415 - only for compressed files

        return gzip.GzipFile(fileobj=stream)
    return io.BufferedReader(_ZstdStream(stream)) if head.startswith(ZSTD_MAGIC) else None


def decompress_zstd(data: bytes, limit: int) -> bytes:
    """What zstd frames hold, if that is not more than the limit."""
    content = io.BufferedReader(_ZstdStream(io.BytesIO(data)))
    parts, size = [], 0
    while part := content.read(_COMPRESSED_CHUNK * 32):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise OSError(f"it expands to more than {limit >> 20} MB")
    return b"".join(parts)


class _ZstdStream(io.RawIOBase):
    """What one or more zstd frames hold. Unlike the library's own reader it sees a cut end."""

    def __init__(self, stream: IO[bytes] | io.RawIOBase) -> None:
        import zstandard  # noqa: PLC0415 - only for compressed files

        self._stream = stream
        self._library: Any = zstandard
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and (chunk := self._stream.read(_COMPRESSED_CHUNK)):
            self._ready = memoryview(self._expand(chunk))
        if not self._ready and self._frame is not None:
            raise EOFError("the zstd data ends in the middle of a frame")
        taken, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _expand(self, chunk: bytes) -> bytes:
        parts = []
        try:
            while chunk:
                if self._frame is None:
                    self._frame = self._library.ZstdDecompressor().decompressobj()
                parts.append(self._frame.decompress(chunk))
                chunk = self._frame.unused_data if self._frame.eof else b""
                if self._frame.eof:
                    self._frame = None
        except self._library.ZstdError as error:
            raise OSError(str(error)) from None
        return b"".join(parts)
