"""Globs over a whole text: `*` stands for any text, `?` for one character.

Each part between two stars is looked for once, from left to right, so the time grows with the
text and never with the ways to divide it: `*a*a*a*b` needs no more than four searches.

`match` takes regular expressions too; `is_regex` tells them from globs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import MAX_PATTERN, compile_regex
from tallymark.suites.checks.answer_under_check import fold

if TYPE_CHECKING:
    from collections.abc import Callable

_STAR = re.compile(r"(?<!\\)\*+")
_WILD = re.compile(r"(?<!\\)\?")
_ESCAPED = re.compile(r"\\([*?])")
_RANGE = r"(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|\\[dws])"
_SIGN = r"[^\]A-Za-z0-9]"
_REGEX_SYNTAX = re.compile(
    r"\A\^|(?<!\\)\$\Z"  # anchors
    r"|\.[*+]"  # .* and .+
    r"|\\[dDwWsSbB]"
    rf"|\[\^?{_SIGN}*{_RANGE}(?:{_RANGE}|{_SIGN})*\]"  # [0-9], [a-zA-Z_-], but not [1, 2]
    r"|\[[^\]]+\][+*]|\[[^\]]+\]\{\d"  # [abc]+
    r"|\((?:[^()]*\||\?)|\)[+*]"  # (a|b), (?:a), (ab)+
)


def is_regex(pattern: str) -> bool:
    """Is a pattern of `match` a regular expression rather than a glob?

    It has syntax that no glob has, and it is a valid one: what starts with a star is not.
    """
    if pattern[:1] in ("*", "?") or not _REGEX_SYNTAX.search(pattern[:MAX_PATTERN]):
        return False
    try:
        compile_regex(pattern)
    except InvalidInput:
        return False
    return True


def compile_glob(pattern: str) -> Callable[[str], bool]:
    r"""A function of folded text. `\*` and `\?` are the characters themselves."""
    parts = [_GlobPart(part) for part in _STAR.split(fold(pattern))]
    if len(parts) == 1:
        return parts[0].equals
    first, *between, last = parts
    if len(between) == 1 and not first.length and not last.length and between[0].wild is None:
        needle = between[0].text
        return lambda text: needle in text

    def matches(text: str) -> bool:
        at, end = first.length, len(text) - last.length
        if at > end or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        for part in between:
            found = part.find(text, at, end)
            if found < 0:
                return False
            at = found + part.length
        return True

    return matches


class _GlobPart:
    """A stretch without stars: always of one length, so there is one way to match it."""

    __slots__ = ("length", "text", "wild")

    def __init__(self, text: str) -> None:
        pieces = [_ESCAPED.sub(r"\1", piece) for piece in _WILD.split(text)]
        self.text = "?".join(pieces)
        self.length = len(self.text)
        self.wild = (
            re.compile(".".join(map(re.escape, pieces)), re.DOTALL) if len(pieces) > 1 else None
        )
        """Where there are question marks in it."""

    def equals(self, text: str) -> bool:
        return len(text) == self.length and self.stands_at(text, 0)

    def stands_at(self, text: str, at: int) -> bool:
        if self.wild is None:
            return text.startswith(self.text, at)
        return self.wild.match(text, at) is not None

    def find(self, text: str, start: int, end: int) -> int:
        if self.wild is None:
            return text.find(self.text, start, end)
        found = self.wild.search(text, start, end)
        return -1 if found is None else found.start()
