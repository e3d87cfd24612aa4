"""Files on a page: data that competitors get, and what they sent; each to look at and to keep."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import msgspec

from tallymark.errors import NotFound
from tallymark.web.view import Download

ARCHIVE = "all.zip"
"""By this name all files are had at once."""
MOST_SUBMITTED = 20_000
"""Characters that show of a file that was submitted; all of it can be kept."""
_MOST_SHOWN = 1_200


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and what shows of it."""

    name: str
    size: int | None = None
    """Bytes; None before it is yours, where that differs."""
    excerpt: str = ""
    cut: bool = False
    """Whether the excerpt is only its beginning."""


def list_files(data: Mapping[str, Any], most: int = _MOST_SHOWN) -> list[DataFile]:
    """Each with its size and its beginning."""
    found = []
    for name, content in data.items():
        raw = _write_file(content)
        text = raw.decode()
        found.append(DataFile(name=name, size=len(raw), excerpt=text[:most], cut=len(text) > most))
    return found


def pick_file(data: Mapping[str, Any], wanted: str) -> Download:
    """One of them to keep, or all as one file."""
    if wanted == ARCHIVE and wanted not in data:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in data.items():
                archive.writestr(name, _write_file(content))
        return Download(title=wanted, content=packed.getvalue(), media_type="application/zip")
    if wanted not in data:
        raise NotFound(f"there is no file {wanted[:80]!r}", hint="see the list on its page")
    return Download(title=wanted.rpartition("/")[2], content=_write_file(data[wanted]))


def _write_file(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    return text.encode()
