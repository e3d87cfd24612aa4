"""Regular expressions with a real time limit.

Python's own `re` cannot be stopped: it holds the interpreter's lock until it is done, so neither
a thread nor a signal helps. The `regex` package stops itself when its time is up.
"""

from __future__ import annotations

import functools
import re
from typing import Protocol

from tallymark.errors import InvalidInput
from tallymark.text import BACKSPACE, BACKSPACE_HINT

TIME_LIMIT = 1.0
"""Seconds of processor time for one search."""
MAX_PATTERN = 10_000
MAX_REPEATED = 100_000
"""`regex` writes out counted repeats, so `(a{1000}){1000}` would take a gigabyte."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,\d*)?\}|.", re.DOTALL)


class Search(Protocol):
    """Searches a text; raises TimeoutError when that takes longer than `seconds`."""

    def __call__(self, text: str, seconds: float = TIME_LIMIT, /) -> bool: ...


@functools.lru_cache(256)
def compile_regex(pattern: str, *, loose: bool = False) -> Search:
    """A search with a time limit. `loose` ignores case, and lets `.` be a line end too."""
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 (40 ms)

    if "\b" in pattern:
        raise InvalidInput(f"this is not a regular expression: {BACKSPACE}", hint=BACKSPACE_HINT)
    if len(pattern) > MAX_PATTERN or _count_repeated(pattern) > MAX_REPEATED:
        raise InvalidInput("the regular expression is too large", hint="lower its counts {n}")
    try:
        flags = regex.IGNORECASE | regex.DOTALL if loose else 0
        search = regex.compile(pattern, flags).search
    except (regex.error, RecursionError, OverflowError) as error:
        cause = str(error) or "it is nested too deeply"
        raise InvalidInput(f"this is not a regular expression: {cause}") from None
    return lambda text, seconds=TIME_LIMIT, /: search(text, timeout=seconds) is not None


def _count_repeated(pattern: str) -> int:
    """Lower bound of the pattern's characters with its counted repeats written out."""
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            groups.append(0)
        elif text == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token[1] is not None:
            groups[-1] += last * (int(token[1]) - 1)
            last *= int(token[1])
        else:
            last = 1
            groups[-1] += 1
        if groups[-1] > MAX_REPEATED:
            break
    return max(groups)
