"""`tally init`: a suite to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.cli.new_file import check_new_file, write_new_file
from tallymark.text import say


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("suite.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a suite that runs, with comments that explain it."""
    from tallymark.suites.starter import read_starter_suite

    text = read_starter_suite()
    check_new_file(path, force=force)
    write_new_file(path, text)
    say(f"Wrote {path}; run it with: tally run {path}", wrap=True)
