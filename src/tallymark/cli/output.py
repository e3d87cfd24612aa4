"""What commands share: reading text, printing JSON and tables."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tallymark.errors import InvalidInput


def print_json(document: Any) -> None:
    """One JSON document on stdout. NaN and infinity must not get this far."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path | None) -> str:
    """The text of a file, or of stdin for None."""
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise InvalidInput(f"cannot read {path}: {what}", hint="check the path") from None
    except UnicodeDecodeError:
        where = "standard input" if path is None else str(path)
        raise InvalidInput(f"{where} is not UTF-8 text", hint="save it as UTF-8") from None


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> str:
    """Lines of aligned columns; those named in `right` hold numbers."""
    lines = [heads, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    justify = [str.rjust if head in right else str.ljust for head in heads]
    return "\n".join(
        "  ".join(
            put(cell, width) for put, cell, width in zip(justify, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def shortened(text: str, most: int = 32) -> str:
    """On one line, and cut to what a column has room for."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def moment(seconds: float) -> str:
    """A time as a person reads it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
