"""Small archives that would unpack to much, or take long to read, are refused before they do."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import resource
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from tests.http.conftest import run_server
from tests.sandbox.forked_child import in_a_child

from tallymark.challenges.challenge_archives import read_archive
from tallymark.errors import InvalidInput

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 2**20
PACKED = {"Content-Type": "application/octet-stream"}


def zip_large(method: int) -> bytes:
    """Zeros, of which a few kilobytes are left."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", method) as packed, packed.open("challenge.yaml", "w") as file:
        for _ in range(320):
            file.write(bytes(MB))
    return made.getvalue()


def zip_entries(count: int, *, overlap: bool = False) -> bytes:
    """Hidden files, or files that all are the same few packed bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    plain = bytes(4 * MB) if overlap else b""
    data = packer.compress(plain) + packer.flush()
    sizes = (zlib.crc32(plain), len(data), len(plain))
    first = b"f00000" if overlap else b".00000"
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, len(first), 0) + first
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, 6, 0, 0, 0, 0, 0, 0)
    names = [b"%c%05d" % (first[0], at % 100_000) for at in range(count)]
    central = b"".join(entry + name for name in names)
    start, most = len(local) + len(data), min(count, 0xFFFF)
    return local + data + central + struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, most, most, len(central), start, 0
    )  # fmt: skip


def tar_folders(count: int) -> bytes:
    made = BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", compresslevel=1) as packed:
        for at in range(count):
            entry = tarfile.TarInfo(f"d{at}")
            entry.type = tarfile.DIRTYPE
            packed.addfile(entry)
    return made.getvalue()


def tar_note(note: bytes, kind: bytes = tarfile.XHDTYPE, *, size: int | None = None) -> bytes:
    """A file before which something stands about it."""
    header = tarfile.TarInfo("note")
    header.type, header.size = kind, len(note) if size is None else size
    written = header.tobuf(tarfile.GNU_FORMAT) + note + bytes(-len(note) % 512)
    return written + tarfile.TarInfo("challenge.yaml").tobuf() + bytes(1024)


def pack_names(count: int) -> bytes:
    names = (b"%07x" % at for at in range(count))
    files = b"".join(b"\xa7" + name + b"\xc4\0" for name in names)
    return zstd.compress(b"\xdf" + struct.pack(">I", count) + files, 1)


BOMBS: dict[str, Callable[[], bytes]] = {
    "zip with deflate": lambda: zip_large(zipfile.ZIP_DEFLATED),
    "zip with bzip2": lambda: zip_large(zipfile.ZIP_BZIP2),
    "zip of many entries": lambda: zip_entries(400_000),
    "zip of overlapping files": lambda: zip_entries(60_000, overlap=True),
    "zip that says it has more": lambda: (
        zip_entries(3)[:-22] + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**31, 0, 0)
    ),
    "tar of many folders": lambda: tar_folders(25_000),
    "tar with a header of digits": lambda: tar_note(b"1" * MB),
    "tar with short headers of digits": lambda: tar_note(b"1" * 60_000),
    "tar with a name without end": lambda: tar_note(b"x" * MB, tarfile.GNUTYPE_LONGNAME),
    "tar that goes backwards": lambda: tar_note(b"", tarfile.REGTYPE, size=-1024),
    "tar with holes": lambda: tar_note(b"", tarfile.GNUTYPE_SPARSE, size=0),
    "tar in a tar's name": lambda: tar_note(b"", tarfile.REGTYPE, size=2**60),
    "gzip of nothing": lambda: gzip.compress(b"") * 1_000_000,
    "bzip2 of nothing": lambda: bz2.compress(b"") * 1_000_000,
    "xz of nothing": lambda: lzma.compress(b"") * 500_000,
    "zstd of nothing": lambda: zstd.compress(b"") * 1_000_000,
    "gzip": lambda: gzip.compress(bytes(100 * MB), 1),
    "packed names": lambda: pack_names(1_500_000),
}


def read_in_bounds(content: bytes) -> None:
    """Read it with so much memory and time of a processor; anything but a refusal is an error."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 250 * MB,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    try:
        read_archive(content)
    except InvalidInput:
        return
    raise OSError(1, "it was taken")


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_within_bounds(name: str) -> None:
    content = BOMBS[name]()
    assert in_a_child(functools.partial(read_in_bounds, content)) == 0


def test_a_server_refuses_bombs_in_one_sentence(tmp_path: Path) -> None:
    with run_server(str(tmp_path / "tally.db"), workers=0) as server:
        for name in ("zstd of nothing", "packed names"):
            body = BOMBS[name]()
            told = server.v1("alice", "POST", "/challenges", content=body, headers=PACKED)
            assert told.status_code == 422, told.text
            assert "no packed challenge, or it is too large" in told.json()["detail"]
