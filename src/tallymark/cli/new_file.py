"""A file that a command makes for its user: nothing that is there is overwritten unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput, WorkFailed

if TYPE_CHECKING:
    from pathlib import Path


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuses a file that is there without `force`, and a place where none can be made."""
    from tallymark.runs.result_files import check_place

    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already", hint="name another file, or add --force")
    check_place(path)


def write_new_file(path: Path, text: str) -> None:
    """Writes it, with the folders that it wants."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None
