"""The file of a backup: blocks, each packed, and chained so that none is missing or another's.

After a line that says what it is come blocks: a letter, the length, what is packed, and a digest of
that and of all before it. The first block is the header, the last one counts what is in between.
A file that was cut, damaged or put together from two is refused; who wrote it, no digest tells.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from tallymark.errors import InvalidInput, WorkFailed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

MAGIC = b"tallymark backup 1\n"
HEADER, ROWS, END = b"H", b"R", b"E"
_HEAD = struct.Struct(">cI")
_DIGEST = 16
_UNREADABLE = (RecursionError, TypeError, UnicodeError, MemoryError)
"""What strangers' bytes can make of a decoder: too deep, a list as a key, no text."""
_LEVEL = 3
MOST_BYTES = 2**30
"""Of a block, packed or not: a row has its submission, its trajectory and no more."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup says of itself."""

    schema: str
    """The version of the tables."""
    made_by: str
    """The version of Tallymark."""
    made_at: Annotated[float, msgspec.Meta(ge=0, lt=2**37)]
    database: str
    """Of which kind: sqlite or postgresql."""
    tables: dict[str, list[str]]
    """Names of columns, by table, in the order in which rows are to be stored."""
    key: str | None = None
    """The key of stored secrets, where whoever made the backup wanted it in there."""


class End(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the last block says."""

    rows: dict[str, int]
    """How many, by table."""
    sequences: dict[str, Annotated[int, msgspec.Meta(lt=2**62)]]
    """The last number that was given out, by table."""


class Rows(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Rows of one table."""

    table: str
    rows: list[tuple[Any, ...]]


class BackupWriter:
    """Writes blocks to a file that is open."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = b""
        self._compressor = zstd.ZstdCompressor(_LEVEL)
        self._file.write(MAGIC)

    def write(self, kind: bytes, content: Any) -> None:
        """Adds a block."""
        packed = self._compressor.compress(
            msgspec.msgpack.encode(content), self._compressor.FLUSH_FRAME
        )
        self._digest = _digest(self._digest, kind, packed)
        self._file.write(_HEAD.pack(kind, len(packed)))
        self._file.write(packed)
        self._file.write(self._digest)


@contextmanager
def make_file(path: Path) -> Iterator[BinaryIO]:
    """A file for its owner alone, that has its name when all of it is on the disk, or never."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        if path.exists():
            raise InvalidInput(f"{path} is there already", hint="name a file that is not")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # and not over what came to be there meanwhile
    except FileExistsError:
        raise InvalidInput(f"{path} is there already", hint="name a file that is not") from None
    except OSError as error:
        raise WorkFailed(
            f"the backup {path} could not be written: {error.strerror or error}",
            hint="nothing of it is left; name a place with enough room where you may write",
        ) from None
    finally:
        draft.unlink(missing_ok=True)


class BackupFile:
    """A backup to be read, once checked from its first byte to its last."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self) -> tuple[Header, End]:
        """Reads all of it; what is damaged or no backup is refused before anything is stored."""
        header: Header | None = None
        end: End | None = None
        for kind, packed in self._read_blocks():
            if (kind == HEADER) != (header is None) or end is not None:
                raise self._refuse("its blocks are not in their order")
            if kind == HEADER:
                header = self._decode(packed, Header)
            elif kind == END:
                end = self._decode(packed, End)
        if header is None or end is None:
            raise self._refuse("it ends too early")
        return header, end

    def read_rows(self) -> Iterator[Rows]:
        """Rows, many at once, in the order in which they are to be stored."""
        for kind, packed in self._read_blocks():
            if kind == ROWS:
                yield self._decode(packed, Rows)

    def _read_blocks(self) -> Iterator[tuple[bytes, bytes]]:
        digest = b""
        try:
            with self.path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise InvalidInput(
                        f"{self.path} is no backup of Tallymark",
                        hint="name a file that tally admin backup made",
                    )
                while head := file.read(_HEAD.size):
                    if len(head) < _HEAD.size:
                        raise self._refuse("it ends too early")
                    kind, length = _HEAD.unpack(head)
                    if kind not in (HEADER, ROWS, END) or length > MOST_BYTES:
                        raise self._refuse("a block is no block")
                    packed, told = file.read(length), file.read(_DIGEST)
                    if len(told) < _DIGEST:
                        raise self._refuse("it ends too early")
                    digest = _digest(digest, kind, packed)
                    if digest != told:
                        raise self._refuse("a block is not what was written")
                    yield kind, packed
        except OSError as error:
            raise InvalidInput(
                f"{self.path} cannot be read: {error.strerror or error}", hint="check its path"
            ) from None

    def _decode(self, packed: bytes, kind: type[Any]) -> Any:
        opener = zstd.ZstdDecompressor()
        try:
            content = opener.decompress(packed, MOST_BYTES)
            if not opener.eof or opener.unused_data:
                raise self._refuse("a block is larger than any may be")
            return msgspec.msgpack.decode(content, type=kind)
        except (zstd.ZstdError, msgspec.MsgspecError, EOFError, *_UNREADABLE):
            raise self._refuse("a block cannot be read") from None

    def _refuse(self, why: str) -> InvalidInput:
        return InvalidInput(f"the backup {self.path} is damaged: {why}", hint="take another one")


def _digest(before: bytes, kind: bytes, packed: bytes) -> bytes:
    made = hashlib.blake2b(before + kind, digest_size=_DIGEST)
    made.update(packed)
    return made.digest()
