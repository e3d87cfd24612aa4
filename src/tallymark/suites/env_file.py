"""An env file: `NAME=value` on each line, as shells and containers read them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.documents.source import read_source
from tallymark.errors import InvalidInput, Place, Problem

if TYPE_CHECKING:
    from pathlib import Path

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_env_file(path: Path | str) -> dict[str, str]:
    """The names and values of a file; InvalidInput has every line that is none."""
    source = read_source(path)
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(source.lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _LINE.fullmatch(text)
        value = None if found is None else _read_value(found[2])
        if found is None or value is None:
            # The line itself is not shown: it may hold a secret.
            message = "expected NAME=value" if found is None else "the quote is never closed"
            problems.append(Problem(message, Place(source.name, number)))
        else:
            values[found[1]] = value
    if problems:
        raise InvalidInput(problems)
    return values


def _read_value(text: str) -> str | None:
    if text[:1] in ('"', "'"):
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            return None
        if quoted[1] is None:
            return quoted[2]
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted[1])
    return re.split(r"\s#", text, maxsplit=1)[0].strip()
