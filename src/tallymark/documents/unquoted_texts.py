"""Text that lacks the quotes that YAML wants, read as the text that it plainly is.

`prompt: Solve: 2x + 5 = 15` is no YAML, and has only one meaning. Where another is plausible (a
list, a text that goes on below, an alias or a tag), nothing is guessed, and the mistake stands.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tallymark.documents.source import Source
from tallymark.documents.yaml_errors import suggest_quotes
from tallymark.documents.yaml_parser import parse_yaml
from tallymark.errors import InvalidInput, Problem
from tallymark.text import shorten

if TYPE_CHECKING:
    from tallymark.documents.yaml_parser import Node

_MOST_PARSED = 20_000_000
"""Limit in characters: the file is parsed again for each line that is quoted."""
_LINE = re.compile(r"((\s*(?:- +)*)(?:[\w-]+: +|(?<=- )))(\S.{0,20000}?)((?:\s+#.*)?\s*)")
_ANCHOR = re.compile(r"(?:^|[\s,\[{])&\w", re.MULTILINE)
# What is no YAML, by the character it begins with: it cannot mean anything but text.
_PLAINLY_TEXT = {
    "*": r"\*[\w-]*[^\w-].*",
    "{": r"\{\{.*\}\}.*",
    "[": r"\[[^\[\]]*\]\s*[^\s,:].*",
    '"': r'"[^"\\]*"\s*[^\s,].*(?<!")',
    "'": r"'[^']*'\s*[^\s,].*(?<!')",
    **dict.fromkeys("@`%", ".*"),
    **dict.fromkeys("-?:", r"\S\S.*(?:: .*|:)"),
    **dict.fromkeys("!&|>,]}#", "(?!)"),
}
_WITH_COLON = r".*(?:: .*|:)"


def read_unquoted(source: Source, holds: str) -> tuple[Node | None, list[Problem], list[Problem]]:
    """The root, what is wrong, and what was read as text though it has no quotes.

    InvalidInput where it cannot be read even so.
    """
    lines, told = list(source.lines), dict[int, Problem]()
    rounds = 1 + _MOST_PARSED // (1 + len(source.text))
    while True:
        root, problems, stopped = _parse(Source("\n".join(lines), source.name), holds)
        places = [problem.place for problem in problems if problem.place is not None]
        wrong = {place.line for place in places if place.line is not None} - told.keys()
        found = [(number, _quote_line(source, number)) for number in sorted(wrong)]
        mended = [(number, quoted) for number, quoted in found if quoted is not None]
        if not mended or len(told) >= rounds:
            break
        for number, (line, warning) in mended:
            lines[number - 1], told[number] = line, warning
    if stopped is not None:
        raise stopped
    return root, problems, [told[number] for number in sorted(told)]


def _parse(source: Source, holds: str) -> tuple[Node | None, list[Problem], InvalidInput | None]:
    """Parse, and return the exception if the parser stopped."""
    try:
        return *parse_yaml(source, holds), None
    except InvalidInput as error:
        return None, list(error.problems), error


def _quote_line(source: Source, number: int) -> tuple[str, Problem] | None:
    """The line with its text in quotes, and the warning; None unless that is plainly meant."""
    found = _LINE.fullmatch(source.line(number))
    if found is None or _goes_on(source, number, found[2]):
        return None
    head, text = found[1], found[3]
    # An item without a key may be a mapping whose own key is an odd one: `- <<: *defaults`.
    if not _is_plainly_text(text, source) or (head == found[2] and text[0] not in "*@`%{["):
        return None
    message = f"the text is not in quotes, and is read as it stands: {shorten(text, 60)}"
    place = source.place(number, len(head) + 1, len(text))
    quoted = "'" + text.replace("'", "''") + "'"
    hint = suggest_quotes(head + text) or f"put the text in quotes: {head.strip()} {quoted}"
    return head + quoted + found[4], Problem(message, place, hint)


def _is_plainly_text(text: str, source: Source) -> bool:
    if re.fullmatch(r"\*[\w-]+", text):  # an alias, where the file has something to refer to
        return _ANCHOR.search(source.text) is None
    return re.fullmatch(_PLAINLY_TEXT.get(text[0], _WITH_COLON), text) is not None


def _goes_on(source: Source, number: int, indent: str) -> bool:
    """Is there more of the text, or something below it, on the lines that follow?"""
    for line in source.lines[number:]:
        if line.strip() and not line.lstrip().startswith("#"):
            return len(line) - len(line.lstrip()) > len(indent)
    return False
