"""Files that commands write and show: data of an attempt, and what was submitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.errors import WorkFailed
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="A file; where files, a folder."),
]


def keep_files(output: Path, files: Mapping[str, str], *, one: bool) -> None:
    """Files in a folder, or the `one` that an answer is under the name that was chosen for it."""
    if one:
        (text,) = files.values()
        write_files(output.parent, {output.name: text})
    else:
        write_files(output, files)


def list_texts(files: Mapping[str, str], named: bool) -> Iterator[str]:
    """Their texts, each under its name where files were sent."""
    for name, text in files.items():
        if named:
            yield f"{clean_line(name)}:"
        yield text.rstrip("\n")


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Texts, bytes or JSON under their names."""
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                text = content if isinstance(content, str) else json.dumps(content, indent=2)
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write to {folder}: {error.strerror or error}") from None
