"""Submitted files, as commands write and show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.new_file import write_new_file
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="A file; where files, a folder."),
]


def keep_files(output: Path, files: Mapping[str, str], *, one: bool) -> None:
    """Write files to a folder, or an answer that is `one` file to the path that the user chose."""
    from tallymark.challenges.challenge_folder import write_received_files

    if one:
        (text,) = files.values()
        write_new_file(output, text)
    else:
        write_received_files(files, output)


def list_texts(files: Mapping[str, str], named: bool) -> Iterator[str]:
    """Their texts, each under its name where files were sent."""
    for name, text in files.items():
        if named:
            yield f"{clean_line(name)}:"
        yield text.rstrip("\n")
