"""The Python files of a plugin's root: searched for imports by the host, compiled in a child."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_FOLDERS, _MOST_FILES, _MOST_BYTES = 200, 200, 2**18
"""A root may be any folder, with anything in it: this much of it is looked at."""


def read_python_files(root: str) -> Iterator[tuple[str, bytes]]:
    """Each file's path and text, in a fixed order; what is left out only costs time later."""
    folders, files, size = [root], 0, 0
    for _ in range(_MOST_FOLDERS):
        if not folders:
            return
        try:
            with os.scandir(folders.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                folders.append(entry.path)
            elif entry.name.endswith(".py") and entry.is_file():
                with open(entry.path, "rb") as file:  # noqa: PTH123 (pathlib is not needed else)
                    text = file.read(_MOST_BYTES + 1)
                files, size = files + 1, size + len(text)
                if files > _MOST_FILES or size > _MOST_BYTES:
                    return
                yield entry.path, text
