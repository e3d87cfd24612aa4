"""Reading text, writing files, and printing JSON and CSV."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import escape, format_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def print_json(document: Any) -> None:
    """Print a record, or what is made of records, as one JSON document on stdout.

    NaN and infinity must not get this far.
    """
    document = msgspec.to_builtins(document)
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(escape(text) + "\n")


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> None:
    """Print CSV (RFC 4180): these columns first, then all others."""
    heads = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    writer = csv.writer(sys.stdout)
    writer.writerow(map(format_cell, heads))
    for row in rows:
        cells = (row.get(name) for name in heads)
        writer.writerow([format_cell(each) if isinstance(each, str) else each for each in cells])


def confirm(question: str, *, yes: bool) -> bool:
    """Ask for confirmation at the terminal, unless `--yes` was given."""
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(f"no terminal to confirm on: {question}", hint="add --yes")
    return yes or typer.confirm(question, err=True)


def read_text(path: Path | None) -> str:
    """Read the text of a file, or of stdin for None."""
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise InvalidInput(f"cannot read {path}: {what}", hint="check the path") from None
    except UnicodeDecodeError:
        where = "standard input" if path is None else str(path)
        raise InvalidInput(f"{where} is not UTF-8 text", hint="save it as UTF-8") from None


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuse an existing file without `force`, and a path where none can be created."""
    from tallymark.runs.result_files import check_place  # noqa: PLC0415 (loads the scorers)

    if path.exists() and not force:
        raise InvalidInput(f"{path} exists already", hint="name another file, or add --force")
    check_place(path)


def write_new_file(path: Path, text: str) -> None:
    """Write the file and its parent folders."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write {path}: {error.strerror or error}") from None
