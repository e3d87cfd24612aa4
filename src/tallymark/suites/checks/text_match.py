"""`match` and `not_match`: does the whole answer match a pattern, ignoring case?

A pattern is a glob (`*` stands for any text, `?` for one character) or a regular expression;
`is_regex` decides which. Each part of a glob between two stars is searched once, from left to
right, so the time grows with the text and not with the ways to divide it: `*a*a*a*b` needs no more
than four searches.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.documents.shapes import TextShape
from tallymark.errors import InvalidInput
from tallymark.runs.record import CheckResult
from tallymark.scorers.timed_regex import MAX_PATTERN, TIME_LIMIT, compile_regex
from tallymark.suites.checks.answer_under_check import fold
from tallymark.suites.checks.check_definition import CheckSetting, CheckType, Notice, QuickCheck
from tallymark.text import BACKSPACE, BACKSPACE_HINT, format_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.suites.checks.answer_under_check import Subject

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


def _build(kind: str, pattern: str, setting: CheckSetting) -> QuickCheck:
    if "\b" in pattern:
        raise InvalidInput(f"this is not a pattern: {BACKSPACE}", hint=BACKSPACE_HINT)
    shown = setting.quote(pattern)
    wanted = kind == "match"
    yes = CheckResult(kind=kind, passed=wanted, reason=f"matches {shown}")
    no = CheckResult(kind=kind, passed=not wanted, reason=f"does not match {shown}")
    if not is_regex(pattern):
        glob = compile_glob(pattern)
        return lambda subject: yes if glob(subject.folded) else no
    return build_search(kind, compile_regex(pattern, loose=True), yes, no)


def build_search(
    kind: str, search: Callable[[str], bool], yes: CheckResult, no: CheckResult
) -> QuickCheck:
    """A check by a search that may run out of time."""
    late = f"{kind}: the search took longer than {format_number(TIME_LIMIT)} s"

    def check(subject: Subject) -> CheckResult:
        try:
            return yes if search(subject.answer.output) else no
        except TimeoutError:
            return CheckResult(kind=kind, passed=False, error=late)

    return check


def _list_notices(kind: str, pattern: str) -> Iterator[Notice]:
    if pattern.strip() and not pattern.strip().strip("*"):
        outcome = "never fail" if kind == "match" else "never pass"
        yield "always", f"{kind}: '{pattern}' matches every answer, so the check can {outcome}"
    elif is_regex(pattern):
        yield "regex", f"{kind}: '{pattern}' is read as a regular expression, not as a glob"


def _make_type(kind: str, what: str) -> CheckType:
    return CheckType(
        kind,
        TextShape(may_be_empty=True),
        build=lambda config, setting: _build(kind, config, setting),
        help=f"A pattern that the whole answer {what}, in any case: * is any text, ? one "
        "character; without them the answer equals it after trimming. A list: all of them.",
        notices=lambda config: _list_notices(kind, config),
        many=True,
        settled=True,
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
    stretches = _STAR.split(fold(pattern))
    # Most have a star at each end and none between.
    if len(stretches) == 3 and not (stretches[0] or stretches[2] or _WILD.search(stretches[1])):
        needle = _ESCAPED.sub(r"\1", stretches[1])
        return lambda text: needle in text
    parts = [_GlobPart(stretch) for stretch in stretches]
    if len(parts) == 1:
        return parts[0].equals
    first, *between, last = parts

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
        """Positions of question marks."""

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


MATCH = _make_type("match", "must match")
NOT_MATCH = _make_type("not_match", "must not match")
