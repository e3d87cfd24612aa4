"""Env files: `NAME=value` on each line, as shells and containers read them.

A file named by the user sets all its values. A `.env` in the current folder is read without being
named and may come from a foreign repository: it sets API keys and values for templates of a suite,
but no addresses, which could send the keys elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.documents.source import read_source
from tallymark.errors import InvalidInput, Place, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from pathlib import Path

DOTENV = ".env"
_SHORTEST_KEY = 8
"""Minimum length of a key that is hidden in reports; shorter ones are words such as `none`."""
_KEY = re.compile(
    r"[A-Z0-9_]+_API_KEY|TALLY_HTTP_KEY|HF_TOKEN"
    r"|AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)"
)
"""Names that keys of models have."""
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


def set_environment(
    values: Mapping[str, str], environment: MutableMapping[str, str], *, keys_only: bool
) -> dict[str, str]:
    """Set variables that the environment lacks; return the API keys among them."""
    wanted = {
        name: value for name, value in values.items() if not keys_only or _KEY.fullmatch(name)
    }
    new = {name: value for name, value in wanted.items() if value and name not in environment}
    environment.update(new)
    return {name: value for name, value in new.items() if _KEY.fullmatch(name)}


def find_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """API keys that no output may show: a suite could use them as variables."""
    return {
        name: value
        for name, value in environment.items()
        if _KEY.fullmatch(name) and len(value) >= _SHORTEST_KEY
    }


def _read_value(text: str) -> str | None:
    if text[:1] in ('"', "'"):
        quoted = _QUOTED.fullmatch(text)
        if quoted is None:
            return None
        if quoted[1] is None:
            return quoted[2]
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted[1])
    return re.split(r"\s#", text, maxsplit=1)[0].strip()
