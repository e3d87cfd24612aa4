"""The members of a zip file, one at a time, zstd ones included.

Python's own `zipfile` learns zstd (method 93) only in 3.14, so those members are taken out of
the file by their directory entry and expanded here.
"""

from __future__ import annotations

import struct
import zlib
from typing import IO, TYPE_CHECKING, Any

from tallymark.errors import TraceError
from tallymark.traces.compression import DAMAGE, decompress_zstd
from tallymark.traces.json_scan import MAX_RECORD, size_error

if TYPE_CHECKING:
    from tallymark.traces.source import TraceSource

_ZSTD_METHOD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")


class ZipMembers:
    """A zip file's directory, and its members on demand, one at a time.

    Python's own `zipfile` learns zstd (method 93) only in 3.14, so those members are taken out of
    the file by their directory entry and expanded here.
    """

    def __init__(self, source: TraceSource, file: IO[bytes]) -> None:
        import zipfile  # noqa: PLC0415 - only for zip files

        self._source = source
        self._file = file
        # RuntimeError is how zipfile refuses encryption and unknown methods of compression.
        self._damage = (*DAMAGE, zipfile.BadZipFile, RuntimeError, ValueError, struct.error)
        try:
            self._zip = zipfile.ZipFile(file)
        except self._damage as error:
            raise TraceError(f"not a readable zip file: {error}", place=source.place()) from None
        self.names = list(self._zip.NameToInfo)
        """Each name once: where a member was written again, the last one counts."""

    def read(self, name: str) -> bytes:
        """A member's content, checked against its checksum."""
        info = self._zip.NameToInfo[name]
        place = self._source.place(part=name)
        if max(info.file_size, info.compress_size) > MAX_RECORD:
            raise size_error(place)
        try:
            if info.compress_type == _ZSTD_METHOD:
                content = self._read_zstd(info)
            else:
                with self._zip.open(info) as member:
                    content = member.read(MAX_RECORD)
        except self._damage as error:
            raise TraceError(f"damaged: {error}", place=place) from None
        self._source.progress.at(info.header_offset + info.compress_size)
        return content

    def _read_zstd(self, info: Any) -> bytes:
        self._file.seek(info.header_offset)
        # The extra field here may be longer or shorter than the one in the directory.
        _, name_size, extra_size = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        self._file.seek(name_size + extra_size, 1)
        content = decompress_zstd(self._file.read(info.compress_size), MAX_RECORD)
        if zlib.crc32(content) != info.CRC:
            raise OSError("its checksum is wrong")
        return content
