"""What commands share: reading text, and printing JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tallymark.errors import InvalidInput
from tallymark.text import escape


def print_json(document: Any) -> None:
    """One JSON document on stdout. NaN and infinity must not get this far."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(escape(text) + "\n")


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
