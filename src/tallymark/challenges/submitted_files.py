"""Reads submissions: regular files only, within the size limit.

Sizes are counted while reading. A link, a pipe or a device in a submitted folder could be anything
on this machine, so they are refused, and files are opened in a way that prevents a swap in between.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge_folder import MAX_LEVELS, find_name_problem
from tallymark.challenges.evaluators.submission_intake import MAX_FILES, MAX_METADATA
from tallymark.challenges.trajectory import MAX_BYTES
from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Submission, SubmissionFormat

MAX_ENTRIES = 10_000
"""Maximum number of entries in a submitted folder, including hidden files."""
_STDIN = Path("-")
_TYPED, _PRINTED = Path("?"), Path("!")
_NAMELESS = {_STDIN: "standard input", _TYPED: "what was typed", _PRINTED: "what was printed"}


def read_answer(path: Path, submission: Submission) -> Any:
    """The content of a file, a folder or stdin (`-`), in the form that the challenge takes."""
    form, most = submission.format, submission.max_bytes
    if path != _STDIN and path.is_dir():
        if form != "files":
            raise InvalidInput(f"{path} is a folder, and this challenge takes {form}")
        return _SubmittedFolder(path, most).read()
    return _parse_answer(path, _read_text(path, most, "a submission"), form)


def parse_printed(data: bytes, submission: Submission) -> Any:
    """The submission from the output of a program."""
    return _parse_data(data, _PRINTED, submission)


def parse_sent(data: bytes, name: str | None, submission: Submission) -> Any:
    """The submission from an upload, or typed text without a name."""
    return _parse_data(data, _TYPED if name is None else Path(Path(name).name), submission)


def _parse_data(data: bytes, path: Path, submission: Submission) -> Any:
    if len(data) > submission.max_bytes:
        raise _explain_size(_name(path), submission.max_bytes, "a submission")
    return _parse_answer(path, _decode(data, _name(path)), submission.format)


def read_metadata(path: Path) -> dict[str, Any]:
    """The competitor's metadata."""
    said = parse_json(_read_text(path, MAX_METADATA, "the metadata"), str(path))
    if not isinstance(said, dict):
        raise InvalidInput(f"{path} is not a JSON object", hint='as in {"tokens": 1200}')
    return said


def read_trajectory_text(path: Path) -> str:
    """The trajectory, not parsed yet."""
    return _read_text(path, MAX_BYTES, "a trajectory")


def parse_json(text: str, source: str) -> Any:
    """Parse a text; any mistake is one sentence."""
    try:
        return json.loads(text, parse_constant=_read_finite, parse_float=_read_finite)
    except ValueError as error:
        raise InvalidInput(f"{source} is not JSON: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{source} is nested too deeply") from None


def _read_finite(number: str) -> float:
    """JSON has no NaN and no infinity, which would be stored as null and cost the attempt."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not a finite number")
    return value


def _parse_answer(path: Path, text: str, form: SubmissionFormat) -> Any:
    if form == "files":
        return _read_files(path, text)
    if form != "json":
        return text.strip() if form == "agent" else text
    return parse_json(text, _name(path))


def _read_files(path: Path, text: str) -> dict[str, Any]:
    """One file by its name, or the files that a JSON map names, as a server would take them."""
    if path in _NAMELESS or path.suffix == ".json":
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and any(PurePosixPath(name).suffix for name in found):
            return found
    if path in _NAMELESS:
        raise InvalidInput(
            f"{_name(path)} has no name, and this challenge takes files",
            hint='send them as JSON, as in {"solution.py": "..."}, or name a file or a folder',
        )
    return {path.name: text}


class _SubmittedFolder:
    """A folder on its way into a submission."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self.left = max_bytes
        self.looked_at = 0
        self.files: dict[str, str] = {}

    def read(self) -> dict[str, str]:
        """The texts by name; hidden files and `__pycache__` are left out, as in challenges."""
        try:
            with _close_after(os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)) as folder:
                self._read_folder(folder, "")
        except OSError as error:
            raise InvalidInput(f"{self.path} cannot be read: {error.strerror or error}") from None
        return self.files

    def _read_folder(self, folder: int, above: str) -> None:
        if above.count("/") > MAX_LEVELS:
            raise InvalidInput(f"{self.path} has folders deeper than {MAX_LEVELS} levels")
        with os.scandir(folder) as entries:
            names = [each.name for each in islice(entries, MAX_ENTRIES - self.looked_at + 1)]
        self.looked_at += len(names)
        if self.looked_at > MAX_ENTRIES:
            raise InvalidInput(f"{self.path} holds more than {MAX_ENTRIES:,} files and folders")
        for name in sorted(names):
            if not name.startswith(".") and name != "__pycache__":
                self._read_entry(folder, name, above + name)

    def _read_entry(self, folder: int, name: str, called: str) -> None:
        kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # opening a device can do things
            raise self._refuse(called, "is a link or a device, not a file")
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with _close_after(os.open(name, how, dir_fd=folder)) as opened:
            found = os.fstat(opened)
            if stat.S_ISDIR(found.st_mode):
                self._read_folder(opened, f"{called}/")
                return
            if not stat.S_ISREG(found.st_mode):
                raise self._refuse(called, "is a link or a device, not a file")
            if found.st_nlink > 1:
                raise self._refuse(called, "has another name elsewhere (a hard link)")
            self._keep(called, opened)

    def _keep(self, called: str, opened: int) -> None:
        if (problem := find_name_problem(called)) is not None:
            raise InvalidInput(f"the file {show_value(called)}: {problem}", hint="rename it")
        if len(self.files) == MAX_FILES:
            raise InvalidInput(f"{self.path} has more than {MAX_FILES} files")
        data = _read_at_most(opened, self.left)
        if data is None:
            raise _explain_size(str(self.path), self.max_bytes, "a submission")
        self.left -= len(data)
        self.files[called] = _decode(data, str(self.path / called))

    def _refuse(self, called: str, why: str) -> InvalidInput:
        message = f"{show_value(called)} in {self.path} {why}, and a submission holds its own files"
        return InvalidInput(message, hint="copy the file there, or take it out")


def _read_text(path: Path, most: int, what: str) -> str:
    """The text of one file that the competitor names, or of stdin."""
    if path == _STDIN:
        data = sys.stdin.buffer.read(most + 1)
        if len(data) > most:
            raise _explain_size(_name(path), most, what)
        return _decode(data, _name(path))
    try:
        # Without waiting: opening a pipe without a writer would block for ever.
        with _close_after(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as opened:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                hint = "name a file; - reads standard input"
                raise InvalidInput(f"{path} is no ordinary file", hint=hint)
            found = _read_at_most(opened, most)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InvalidInput(f"cannot read {path}: {why}", hint="check the path") from None
    if found is None:
        raise _explain_size(str(path), most, what)
    return _decode(found, str(path))


def _read_at_most(opened: int, most: int) -> bytes | None:
    """The whole file; None if it is larger than the limit, without reading a larger size."""
    if os.fstat(opened).st_size > most:
        return None
    with open(opened, "rb", closefd=False) as file:
        data = file.read(most + 1)
    return data if len(data) <= most else None


@contextmanager
def _close_after(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{source} is not UTF-8 text", hint="save it as UTF-8") from None


def _name(path: Path) -> str:
    return _NAMELESS.get(path) or str(path)


def _explain_size(source: str, most: int, what: str) -> InvalidInput:
    return InvalidInput(
        f"{source} is larger than {most:,} bytes, the most that {what} may have here",
        hint="send less, nothing was stored",
    )
