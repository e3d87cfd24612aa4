"""A program's scratch folder: files laid in, what it holds, files read back, its removal.

Only the standard library: the launcher uses this inside the sandbox too.
"""

from __future__ import annotations

import itertools
import os
import secrets
import stat
from contextlib import ExitStack
from pathlib import Path

MOST_ENTRIES = 10_000
"""Files and folders in one scratch: each costs the kernel memory that no size limit counts."""


def lay_file(folder: Path, name: str, data: bytes) -> None:
    """Write one file under the folder, executable, with the folders that it needs."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755)


def collect_files(
    folder: Path, names: list[str], most: int
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Read the named files, with the reasons for others; a missing one is in neither.

    Called when the program is dead. What it left may still be meant to mislead: no link is
    followed, nothing but an ordinary file is read, and `most` bounds all of them together.
    """
    kept: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            data = _read_file(folder, name, most)
        except FileNotFoundError:
            continue
        except OSError as error:
            refused[name] = f"it cannot be read without following links ({error.strerror})"
            continue
        if isinstance(data, str):
            refused[name] = data
        else:
            kept[name] = data
            most -= len(data)
    return kept, refused


def _read_file(folder: Path, name: str, most: int) -> bytes | str:
    """The content of the file, or the reason why it is not read."""
    *above, last = name.split("/")
    with ExitStack() as stack:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, at)
        for part in above:
            at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            stack.callback(os.close, at)
        # Without O_NONBLOCK, opening a FIFO waits for a writer.
        descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        stack.callback(os.close, descriptor)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return "it is not an ordinary file"
        if found.st_size > most:
            return f"it has {found.st_size} bytes, {most} were left"
        data = bytearray()
        while piece := os.read(descriptor, 1 << 20):
            data += piece
        return bytes(data)


def is_overfull(
    folder: Path, most_bytes: int, most_entries: int = MOST_ENTRIES, *, removed_bytes: int = 0
) -> bool:
    """True if the folder holds more than allowed; stops counting there.

    `removed_bytes` are in files without a name that are still open. The program may move things
    meanwhile: then this count is wrong, and the next one is right.
    """
    size, entries = removed_bytes, 0
    folders = [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    entries += 1
                    state = entry.stat(follow_symlinks=False)
                    size += state.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    if size > most_bytes or entries > most_entries:
                        return True
        except FileNotFoundError:
            continue
        except OSError:
            # Nested deeper than a path can say, or closed to us: nothing honest needs that.
            return True
    return size > most_bytes


def remove_folder(folder: Path) -> None:
    """Remove the folder at any depth: every folder in it first moves up to the top."""
    unique = secrets.token_hex(8)
    moved = itertools.count()
    while inner := list(folder.iterdir()):
        for entry in inner:
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                continue
            entry.chmod(0o700)
            for child in list(entry.iterdir()):
                if child.is_symlink() or not child.is_dir():
                    child.unlink()
                else:
                    # A folder can be moved only with write permission on it.
                    child.chmod(0o700)
                    child.rename(folder / f"{unique}.{next(moved)}")
            entry.rmdir()
    folder.rmdir()
