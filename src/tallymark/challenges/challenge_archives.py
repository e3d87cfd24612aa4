"""A challenge's folder that somebody packed with a tool of their own: a zip, a tar, or ours.

No more is unpacked than a folder may have, whatever an archive says of itself, and no file of it
can lie outside of the folder.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import IO, Any

from tallymark.challenges.challenge_file import NAMES
from tallymark.challenges.challenge_folder import (
    MAX_BYTES,
    MAX_FILES,
    find_name_problem,
    read_packed,
)
from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value

_MOST_TAR = MAX_BYTES + MAX_FILES * 2048
"""Of a tar: the files, and what stands before and behind each."""
_DAMAGE = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError, UnicodeError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError),
)
_OPENERS: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
_ZSTD = b"\x28\xb5\x2f\xfd"
_Entry = tuple[str, Callable[[int], bytes]]
"""A name, and what reads so many bytes of its file."""


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
        # One byte too many tells that it is too large, and no more is ever unpacked.
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
    with zipfile.ZipFile(BytesIO(content)) as packed:
        for each in packed.infolist():
            if each.is_dir():
                continue
            if (each.external_attr >> 16) & 0o170000 == 0o120000:
                raise _refuse_link(each.filename)

            def read(most: int, each: zipfile.ZipInfo = each) -> bytes:
                with packed.open(each) as file:
                    return file.read(most)

            yield each.filename, read


def _list_tar(content: bytes) -> Iterator[_Entry]:
    plain = _open_plain(content)
    with tarfile.open(fileobj=BytesIO(plain), mode="r:") as packed:
        for each in packed:
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
    opener = next((each for sign, each in _OPENERS if content.startswith(sign)), None)
    if opener is None:
        return content
    with opener(BytesIO(content)) as file:
        plain: bytes = file.read(_MOST_TAR + 1)
    if len(plain) > _MOST_TAR:
        limit = f"{MAX_BYTES // 1_000_000} MB"
        raise InvalidInput(f"the archive unpacks to more than {limit}", hint="leave out large data")
    return plain


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
