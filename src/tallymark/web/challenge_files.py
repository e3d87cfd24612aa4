"""Files of challenges on pages: lists to look at and download, and forms to edit them.

A file that no text area can hold without changing it stays as it is. Stored files that a form does
not name stay in the challenge: a form has no room for thousands.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from tallymark.challenges.challenge_archives import read_archive
from tallymark.challenges.challenge_file import NAMES
from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.errors import InvalidInput, NotFound
from tallymark.scoring.score import show_value
from tallymark.text import clean
from tallymark.web.page import Download
from tallymark.web.page_request import Form, PageRequest

ARCHIVE = "all.zip"
"""Name of the archive of all files."""
MOST_SUBMITTED = 20_000
"""Characters of a submitted file that are shown; the download is complete."""
_MOST_SHOWN = 1_200


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with an excerpt."""

    name: str
    size: int | None = None
    """Bytes; None for a sample, whose size differs from the attempt's."""
    excerpt: str = ""
    cut: bool = False
    """True if the excerpt is shortened."""


def list_files(data: Mapping[str, Any], most: int = _MOST_SHOWN) -> list[DataFile]:
    """List files with their sizes and excerpts."""
    found = []
    for name, content in data.items():
        raw = _write_file(content)
        text = raw.decode()
        found.append(DataFile(name=name, size=len(raw), excerpt=text[:most], cut=len(text) > most))
    return found


def pick_file(data: Mapping[str, Any], wanted: str) -> Download:
    """Return one file as a download, or all in an archive."""
    if wanted == ARCHIVE and wanted not in data:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in data.items():
                archive.writestr(name, _write_file(content))
        return Download(title=wanted, content=packed.getvalue(), media_type="application/zip")
    if wanted not in data:
        raise NotFound(
            f"there is no file {wanted[:80]!r}", hint="see the list of files on its page"
        )
    return Download(title=wanted.rpartition("/")[2], content=_write_file(data[wanted]))


def _write_file(content: Any) -> bytes:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    return text.encode()


MOST_FILES = 40
LONGEST_TEXT = 200_000
_MOST_CARRIED = 1_500_000
"""Most bytes of binary files that a form carries along."""


class FileField(msgspec.Struct, frozen=True, kw_only=True):
    """A file in a form."""

    name: str
    text: str | None = None
    """Edited text; None for a file that cannot be edited as text."""
    was: str = ""
    """Name of the stored file."""
    raw: str = ""
    """Base64 of a binary file of an archive that is not stored yet."""
    size: int = 0
    lines: int = 4
    dropped: bool = False


def list_fields(
    request: PageRequest, stored: Mapping[str, bytes]
) -> tuple[list[FileField], list[str]]:
    """List the fields as filled in, or of the stored files, and the files left out."""
    if request.form.get("count"):
        with suppress(InvalidInput):
            if (sent := request.form.get_file("archive")) is not None:
                return make_fields(read_archive(sent), {})
        return list(_read_fields(request.form, stored)), []
    return make_fields(stored, stored)


def make_fields(
    files: Mapping[str, bytes], stored: Mapping[str, bytes]
) -> tuple[list[FileField], list[str]]:
    """Make fields for files, the challenge's own first, and list the files left out."""
    fields: list[FileField] = []
    left: list[str] = []
    carried = 0
    for name in sorted(files, key=lambda name: (name not in NAMES, name)):
        content, was = files[name], name if name in stored else ""
        text = _read_text(content)
        if len(fields) >= MOST_FILES:
            left.append(name)
        elif text is not None:
            fields.append(_make_text(name, text, was))
        elif was:
            fields.append(FileField(name=name, was=was, size=len(content)))
        elif carried + len(content) <= _MOST_CARRIED:
            carried += len(content)
            raw = base64.b64encode(content).decode()
            fields.append(FileField(name=name, raw=raw, size=len(content)))
        else:
            left.append(name)
    # Stored files stay where they are; files of an archive would have to be sent again.
    return fields, [name for name in left if name not in stored]


def read_files(request: PageRequest, stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """Read the files that a form describes."""
    if (sent := request.form.get_file("archive")) is not None:
        return read_archive(sent)
    fields = list(_read_fields(request.form, stored))
    named = {each.was for each in fields}
    files = {name: content for name, content in stored.items() if name not in named}
    for each in fields:
        if each.dropped or not each.name:
            continue
        if each.name in files:
            raise InvalidInput(f"two files have the name {show_value(each.name)}")
        if (problem := find_name_problem(each.name)) is not None:
            raise InvalidInput(f"the file {show_value(each.name)}: {problem}", hint="rename it")
        files[each.name] = _find_content(each, stored)
    if not files:
        raise InvalidInput("there are no files", hint="choose a starter or an archive")
    return files


def _make_text(name: str, text: str, was: str) -> FileField:
    lines = min(24, max(3, text.count("\n") + 2))
    return FileField(name=name, text=text, was=was, size=len(text.encode()), lines=lines)


def _read_text(content: bytes) -> str | None:
    """Decode a file for a text area; None if a text area would change it."""
    if len(content) > LONGEST_TEXT:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    plain = text.replace("\r\n", "\n")
    return plain if clean(plain) == plain else None


def _read_fields(form: Form, stored: Mapping[str, bytes]) -> Iterator[FileField]:
    count = form.get("count")
    for place in range(min(int(count), MOST_FILES + 1) if count.isdecimal() else 0):
        name, was = form.get(f"name-{place}"), form.get(f"was-{place}")
        text = form.get_text(f"text-{place}")
        dropped = bool(form.get(f"drop-{place}"))
        if not name and not (text or "").strip():
            continue
        if text is None:
            raw = form.get(f"raw-{place}")
            size = len(stored.get(was, b"")) or len(raw) * 3 // 4
            yield FileField(name=name, was=was, raw=raw, size=size, dropped=dropped)
        else:
            made = _make_text(name, text, was)
            yield msgspec.structs.replace(made, dropped=dropped)


def _find_content(field: FileField, stored: Mapping[str, bytes]) -> bytes:
    original = stored.get(field.was)
    if field.text is not None:
        # An unchanged file stays the same byte for byte, and so does its version.
        unchanged = original is not None and _read_text(original) == field.text
        return original if unchanged and original is not None else field.text.encode()
    if original is not None:
        return original
    try:
        return base64.b64decode(field.raw, validate=True)
    except binascii.Error:
        raise InvalidInput(
            f"the file {show_value(field.name)} is no longer in this form",
            hint="choose the archive again",
        ) from None
