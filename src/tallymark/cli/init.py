"""`tally init`: a suite to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import say


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("suite.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Write a suite that runs, with comments that explain it."""
    from tallymark.suites.starter import read_starter_suite

    text = read_starter_suite()
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already", hint="name another file, or add --force")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None
    say(f"Wrote {path}; run it with: tally run {path}")
