"""Archives of a challenge's folder: zip, tar, or our own format.

No more is unpacked than a folder may contain, regardless of the sizes that an archive declares, and
no file can be placed outside the folder.
"""

from __future__ import annotations

import bz2
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from tallymark.challenges.challenge_file import NAMES
from tallymark.challenges.challenge_folder import (
    MAX_BYTES,
    MAX_FILES,
    decompress_bounded,
    find_name_problem,
    read_packed,
)
from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value

_MOST_TAR = MAX_BYTES + MAX_FILES * 2048
"""Files of a tar, with their headers and padding."""
_DAMAGE = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError, UnicodeError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)
_MOST_ENTRIES = 4 * MAX_FILES
"""With folders and hidden files, which are left out."""
_GZIP_FORMAT, _XZ_MEMORY = 31, 2**27
_DECOMPRESSORS: tuple[tuple[bytes, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(_GZIP_FORMAT)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)),
)
_ZIP_ENTRY = b"PK\x01\x02"
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""`zipfile` unpacks a whole file of other compression methods, however little is read."""
_TAR_NOTES = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
"""Entries that extend the next one."""
_MOST_NOTE = 2**16
_ZSTD = b"\x28\xb5\x2f\xfd"
_Entry = tuple[str, Callable[[int], bytes]]
"""A name, and a function that reads up to a number of bytes."""


def read_archive(content: bytes) -> dict[str, bytes]:
    """The files of an archive by their names; those of the one folder in it, if it has no others.

    Hidden files and `__pycache__` are left out, as they are of a folder.
    """
    if content.startswith(_ZSTD):
        return read_packed(content)
    list_entries = _list_zip if content.startswith(b"PK") else _list_tar
    try:
        files = _read_entries(list_entries(content))
    except _DAMAGE:
        raise InvalidInput(
            "this is no archive that can be read",
            hint="pack the folder of the challenge as .zip, .tar or .tar.gz",
        ) from None
    if not files:
        raise InvalidInput("the archive has no files", hint="pack the folder of the challenge")
    return _leave_folder(files)


def _read_entries(entries: Iterator[_Entry]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    for name, read in entries:
        shown = name.removeprefix("./")
        if any(part.startswith((".", "__pycache__", "__MACOSX")) for part in _split(shown)):
            continue
        if (problem := find_name_problem(shown)) is not None:
            raise InvalidInput(f"the archive has a file {show_value(name)}: {problem}")
        if shown in files:
            raise InvalidInput(f"the archive has the file {show_value(shown)} twice")
        # One byte too many shows that it is too large; no more is unpacked.
        files[shown] = read(left + 1)
        left -= len(files[shown])
        if left < 0 or len(files) > MAX_FILES:
            limit = f"{MAX_BYTES // 1_000_000} MB and {MAX_FILES:,} files"
            message = f"the archive unpacks to more than {limit}"
            raise InvalidInput(message, hint="make large data with generate.py")
    return files


def _split(name: str) -> list[str]:
    """The parts of a name that may be hidden; those that lead out of the folder are no such."""
    return [part for part in name.split("/") if part not in (".", "..")]


def _list_zip(content: bytes) -> Iterator[_Entry]:
    if content.count(_ZIP_ENTRY) > _MOST_ENTRIES:
        raise _refuse_many()
    with zipfile.ZipFile(BytesIO(content)) as packed:
        for each in packed.infolist():
            if each.is_dir():
                continue
            if (each.external_attr >> 16) & 0o170000 == 0o120000:
                raise _refuse_link(each.filename)
            if each.compress_type not in _ZIP_METHODS:
                raise InvalidInput(
                    f"{show_value(each.filename)} in the archive is not packed with deflate",
                    hint="pack the folder with the usual method of zip",
                )

            def read(most: int, each: zipfile.ZipInfo = each) -> bytes:
                with packed.open(each) as file:
                    return file.read(most)

            yield each.filename, read


class _TarEntry(tarfile.TarInfo):
    """An entry whose header is checked before the standard library works on it."""

    def _proc_member(self, packed: tarfile.TarFile) -> Any:
        file: Any = packed.fileobj
        if self.type in _TAR_NOTES:
            note = file.read(self.size if 0 <= self.size <= _MOST_NOTE else 0)
            file.seek(-len(note), 1)
            # Over a long row of digits a search of `tarfile` takes hours in some Pythons.
            if self.size > _MOST_NOTE or re.search(rb"\d{100}", note):
                raise tarfile.ReadError("a header is too long")
        if self.size < 0 or self.type == tarfile.GNUTYPE_SPARSE:
            raise InvalidInput("the archive has a file of a kind that is not taken")
        return super()._proc_member(packed)  # type: ignore[misc] # the library lets it be extended


def _list_tar(content: bytes) -> Iterator[_Entry]:
    plain = _open_plain(content)
    with tarfile.open(fileobj=BytesIO(plain), mode="r:", tarinfo=_TarEntry) as packed:
        for count, each in enumerate(packed):
            if count > _MOST_ENTRIES:
                raise _refuse_many()
            if each.isdir():
                continue
            if not each.isfile():
                raise _refuse_link(each.name)

            def read(most: int, each: tarfile.TarInfo = each) -> bytes:
                file: Any = packed.extractfile(each)
                found: bytes = file.read(most)
                return found

            yield each.name, read


def _open_plain(content: bytes) -> bytes:
    """A tar that was compressed, without that: a few bytes can unpack to any size."""
    make = next((each for sign, each in _DECOMPRESSORS if content.startswith(sign)), None)
    if make is None:
        return content
    try:
        return decompress_bounded(content, make, _MOST_TAR)
    except ValueError:
        limit = f"{MAX_BYTES // 1_000_000} MB"
        raise InvalidInput(
            f"the archive unpacks to more than {limit}, or has too many compressed parts",
            hint="leave out large data, and compress it in one go",
        ) from None


def _refuse_many() -> InvalidInput:
    return InvalidInput(
        f"the archive has more than {_MOST_ENTRIES:,} entries",
        hint="make large data with generate.py",
    )


def _refuse_link(name: str) -> InvalidInput:
    return InvalidInput(
        f"{show_value(name)} in the archive is a link, and a challenge holds its files itself",
        hint="pack the file in its place",
    )


def _leave_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Most tools pack the folder itself, not what is in it."""
    folders = {name.partition("/")[0] for name in files}
    if len(folders) > 1 or any("/" not in name for name in files) or set(files) & set(NAMES):
        return files
    return {name.partition("/")[2]: content for name, content in files.items()}
