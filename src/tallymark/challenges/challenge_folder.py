"""A challenge's folder as one value: its version, and its files packed into bytes and back.

Hidden files and `__pycache__` are no part of it; links and other oddities are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import msgspec

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.scoring.score import show_value
from tallymark.traces.trace_source import DAMAGE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BYTES = 50_000_000
MAX_FILES = 5_000
MAX_NAME = 240
MAX_LEVELS = 16
_PIECE, _MOST_STREAMS = 2**16, 1_000
MAX_RECEIVED_FILES, MAX_RECEIVED_BYTES = 10_000, 100_000_000
"""Maximum number of files from a server: more than any challenge has."""


def hash_folder(folder: Path) -> str:
    """A hash of all names and contents: equal versions score alike."""
    return hash_files(read_files(folder))


def hash_files(files: dict[str, bytes]) -> str:
    """The version that a folder with these files has."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            # With lengths, so that no content can read like another file's name.
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def pack(folder: Path) -> bytes:
    """All files in one value, the same for the same files."""
    return pack_files(read_files(folder))


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Pack files that are in no folder."""
    packed = msgspec.msgpack.encode({name: files[name] for name in sorted(files)})
    return zstd.compress(packed, 9)


def unpack(packed: bytes, folder: Path) -> None:
    """Write packed files into a folder that is new or empty; nothing lands outside of it."""
    write_files(read_packed(packed), folder)


def read_packed(packed: bytes) -> dict[str, bytes]:
    """Packed files by their names."""
    # A few packed bytes can unpack to any size: unpack no more than a folder may contain.
    most = MAX_BYTES + MAX_FILES * (MAX_NAME + 16)
    try:
        content = decompress_bounded(packed, zstd.ZstdDecompressor, most)
        _check_map_length(content)
        return msgspec.msgpack.decode(content, type=dict[str, bytes])
    except (*DAMAGE, msgspec.DecodeError, UnicodeError, ValueError):
        raise InvalidInput("these bytes are no packed challenge, or it is too large") from None


def decompress_bounded(packed: bytes, make: Callable[[], Any], most: int) -> bytes:
    """Decompress concatenated streams; ValueError beyond a number of bytes or streams.

    `make` gives a decompressor of the standard library for each. Empty streams are possible, so
    they are counted too: each costs time.
    """
    plain = bytearray()
    unpacker, streams = make(), 1
    for start in range(0, len(packed), _PIECE):
        piece = packed[start : start + _PIECE]
        while piece:
            if unpacker.eof:
                if not piece.strip(b"\0"):
                    break  # some tools fill the last block with zeros
                unpacker, streams = make(), streams + 1
            plain += unpacker.decompress(piece, most + 1 - len(plain))
            if len(plain) > most or streams > _MOST_STREAMS:
                raise ValueError(f"more than {most} bytes or {_MOST_STREAMS} streams")
            piece = unpacker.unused_data if unpacker.eof else b""
    if not unpacker.eof:
        raise EOFError("it ends too soon")
    return bytes(plain)


def _check_map_length(content: bytes) -> None:
    """ValueError for a MessagePack map of too many files, before objects are made of them."""
    size = {0xDE: 2, 0xDF: 4}.get(content[0] if content else 0, 0)
    if int.from_bytes(content[1 : 1 + size], "big") > MAX_FILES:
        raise ValueError(f"more than {MAX_FILES} files")


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files into a folder that is new or empty; a name that leads out of it is refused."""
    for name in files:
        if (problem := find_name_problem(name)) is not None:
            raise InvalidInput(f"the packed challenge has a file {show_value(name)}: {problem}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(f"{folder} is not empty", hint="unpack into a new folder")
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be written: {error.strerror}") from None


def write_received_files(files: Mapping[str, Any], folder: Path) -> None:
    """Write texts, bytes or JSON values under names that a server chose.

    The server is not trusted: every name is checked before anything is written, and a link that
    lies in the folder is not followed.
    """
    contents = {name: _encode_content(content) for name, content in files.items()}
    if len(contents) > MAX_RECEIVED_FILES:
        raise WorkFailed(f"there are more than {MAX_RECEIVED_FILES:,} files")
    if sum(map(len, contents.values())) > MAX_RECEIVED_BYTES:
        raise WorkFailed(f"the files have more than {MAX_RECEIVED_BYTES // 1_000_000} MB")
    for name in contents:
        if (problem := find_name_problem(name)) is not None:
            raise WorkFailed(
                f"there is a file {show_value(name)}, which is not written: {problem}",
                hint="tell the operator of the server",
            )
    for name in contents:
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            if (path := folder.joinpath(*parts[:depth])).is_symlink():
                raise WorkFailed(
                    f"{path} is a link, so nothing is written there",
                    hint="remove the link, or name another folder",
                )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise WorkFailed(f"cannot write to {folder}: {error.strerror or error}") from None


def _encode_content(content: Any) -> bytes:
    if isinstance(content, bytes):
        return content
    is_text = isinstance(content, str)
    text: str = content if is_text else json.dumps(content, indent=2, ensure_ascii=False)
    return text.encode("utf-8", "replace")


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file of the folder by its name from there, with `/` on every system."""
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}", hint="check the path")
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        for path in _list_paths(folder):
            name = _name_in_folder(path, folder)
            with path.open("rb") as file:
                # One byte too many shows that it is too large; no more is read.
                files[name] = file.read(left + 1)
            left -= len(files[name])
            if left < 0 or len(files) > MAX_FILES:
                limit = f"{MAX_BYTES // 1_000_000} MB and {MAX_FILES:,} files"
                message = f"the challenge in {folder} is larger than {limit}"
                raise InvalidInput(message, hint="make large data with generate.py")
    except OSError as error:
        raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from None
    return files


def find_name_problem(name: str) -> str | None:
    """Why a name cannot be a file's inside a folder; None for a good one."""
    parts = name.split("/")
    if not name or len(name.encode("utf-8", "replace")) > MAX_NAME or len(parts) > MAX_LEVELS:
        return f"a name has 1 to {MAX_NAME} bytes and at most {MAX_LEVELS} parts"
    if any(part in ("", ".", "..") for part in parts):
        return "a name is a path below the folder, without '.' and '..'"
    if "\\" in name or not name.isprintable():
        return "a name has only printable characters, and '/' between folders"
    if PureWindowsPath(name).drive:
        return "a name does not begin with a drive"
    return "hidden files are left out" if any(part[0] == "." for part in parts) else None


def _list_paths(folder: Path) -> list[Path]:
    found: list[Path] = []
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_symlink():
            message = f"{entry.path} is a link, and a challenge holds its files itself"
            raise InvalidInput(message, hint="copy the file there")
        if entry.is_dir():
            found += _list_paths(Path(entry.path))
        elif entry.is_file():
            found.append(Path(entry.path))
        else:
            raise InvalidInput(f"{entry.path} is neither a file nor a folder")
    return found


def _name_in_folder(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    if (problem := find_name_problem(name)) is not None:
        raise InvalidInput(f"the file {show_value(name)}: {problem}", hint="rename it")
    return name
