"""Explains invalid YAML in one sentence that helps.

The parser's own messages are about tokens. People make mistakes in quoting, indentation and
brackets, so the user's line is examined, and where quotes repair it, the repaired line is shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tallymark.documents.source import BREAK
from tallymark.errors import Place, Problem

if TYPE_CHECKING:
    from tallymark.documents.source import Source

_CLOSED_WITH = {"{": " with '}'", "[": " with ']'"}
_OPEN_FLOW = re.compile(r"""\{\s*["']?[\w-]+["']?\s*:\s|\[\s*[{\[]|\[[^]]*,[^]]*$""")
"""The beginning of a mapping or a list, rather than of a text in brackets."""
_KEYED = re.compile(r"(\s*(?:-\s+)*[\w-]+:\s+)(\S.*)")
_ITEM = re.compile(r"(\s*-\s+)(\S.*)")
_LONGEST = 500
"""Characters of a line that is looked at closely."""
_SPECIAL = "*&!%@`|>{}[],?-:\"'"
"""Characters by which YAML means something else at the beginning of a text."""


def explain_control_character(source: Source, odd: re.Match[str]) -> Problem:
    """A character that YAML does not allow: a control character or half of a surrogate pair."""
    before = BREAK.split(source.text[: odd.start()])
    return Problem(
        f"the control character U+{ord(odd[0]):04X} is not allowed here",
        Place(source.name, len(before), len(before[-1]) + 1),
        "delete it, or write it as an escape in double quotes",
    )


def _find_open_bracket(source: Source, mark: Any) -> tuple[int, int]:
    """Line and column of the bracket; the parser's mark is after it if the file ends there."""
    number, column = mark.line + 1, mark.column
    if source.line(number)[column : column + 1] in ("[", "{"):
        return number, column + 1
    before = source.line(number)[:column]
    while number > 0:
        if (found := max(before.rfind("["), before.rfind("{"))) >= 0:
            return number, found + 1
        number -= 1
        before = source.line(number) if number else ""
    return mark.line + 1, mark.column + 1


def explain_invalid_yaml(source: Source, error: Any) -> Problem:
    """One sentence for what stopped the parser."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Problem(f"not valid YAML: {' '.join(str(error).split())}", source.place(0))
    context, said = error.context or "", error.problem or ""
    line = source.line(mark.line + 1)
    here = _locate_mark(source, mark)
    if "quoted scalar" in context and "end of stream" in said:
        opened = _locate_mark(source, error.context_mark)
        return Problem("the quote that opens here is never closed", opened, "close it")
    if "tab" in said or line[mark.column : mark.column + 1] == "\t":
        return Problem("there is a tab before the text", here, "YAML wants spaces there")
    if "escape" in said:
        return _explain_bad_escape(here, line)
    if "mapping values" in said and _is_first_colon(line, mark.column):
        message = "this line reads as a part of the line above"
        hint = "give it the indentation of its neighbours; above it, a key needs ': ' after it"
        return Problem(message, here, hint)
    if "flow" in context and error.context_mark is not None:
        number, column = _find_open_bracket(source, error.context_mark)
        opened = source.place(number, column)
        whole = source.line(number)
        text = whole[column - 1 :]
        bracket = text[:1]
        mend = suggest_quotes(whole)
        if mend is None or len(text.strip()) == 1 or _OPEN_FLOW.match(text):
            eaten = "; ' #' begins a comment, unless quotes are around it" if " #" in text else ""
            mend = f"close it{_CLOSED_WITH.get(bracket, '')}{eaten}"
        return Problem(f"the '{bracket}' that opens here is never closed", opened, mend)
    misplaced = "block" in context and not line[: mark.column].strip()
    if not misplaced and (mended := suggest_quotes(line)) is not None:
        return _explain_missing_quotes(source, mark.line + 1, here, mended)
    if "block" in context:
        message = "the indentation of this line does not fit the lines above it"
        return Problem(message, here, "give it the indentation of its neighbours")
    return Problem(f"not valid YAML: {said}", here)


def explain_unknown_alias(source: Source, mark: Any, name: str) -> Problem:
    """`*name` without a `&name` before it: most often a pattern that lacks its quotes."""
    mended = suggest_quotes(source.line(mark.line + 1)) or f'put it in quotes: "*{name}"'
    here = _locate_mark(source, mark, len(name) + 1)
    return _explain_missing_quotes(source, mark.line + 1, here, mended)


def explain_unquoted_braces(source: Source, line: int, column: int) -> Problem:
    """A key that is a list or mapping: most often a template that lacks its quotes."""
    text = source.line(line)
    if "{{" in text:
        message, hint = "a template must stand in quotes", suggest_quotes(text)
    else:
        message, hint = "a key must be a single text", None
    return Problem(message, source.place(line, column), hint)


def suggest_quotes(line: str) -> str | None:
    """Suggest how to quote a line whose text lacks its quotes; None where quotes would not help."""
    parts = _split_line(line)
    if parts is None:
        return None
    head, text = parts
    if text[0] not in _SPECIAL and ": " not in text and not text.endswith(":"):
        return None
    if _is_flow(text):
        return "put the texts between the brackets in quotes"
    return f"put the text in quotes: {head.strip()} {_quote(text)}"


def _is_flow(text: str) -> bool:
    """A list or mapping on one line, and no template."""
    return re.fullmatch(r"\[[^\[\]]*\]|\{[^{}]*\}", text) is not None


def _split_line(line: str) -> tuple[str, str] | None:
    """Split a line into its beginning, `- key: ` or `- `, and the text after it."""
    if len(line) > _LONGEST:
        return None
    found = _KEYED.match(line) or _ITEM.match(line)
    return None if found is None else (found[1], found[2].rstrip())


def _quote(text: str) -> str:
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        text = text[1:-1]
    if '"' in text or "\\" in text:
        return "'" + text.replace("'", "''") + "'"
    return f'"{text}"'


def _explain_missing_quotes(source: Source, line: int, here: Place, mended: str) -> Problem:
    head, text = _split_line(source.line(line)) or ("", "*")
    if text[0] not in _SPECIAL:
        message = "the text on this line has a ': ', which YAML takes for the end of a key"
        return Problem(message, here, mended)
    if _is_flow(text):
        sign = here.text[here.column - 1] if here.text and here.column else "*"
        return Problem(f"text that starts with {sign} must stand in quotes", here, mended)
    start = source.place(line, len(head) + 1) if head else here
    return Problem(f"text that starts with {text[0]} must stand in quotes", start, mended)


def _explain_bad_escape(here: Place, line: str) -> Problem:
    quoted = re.search(r'"(.*)"', line)
    single = f": '{quoted[1].replace(chr(39), chr(39) * 2)}'" if quoted is not None else ""
    message = "a backslash in double quotes begins an escape, and this is none"
    return Problem(message, here, f"use single quotes{single}")


def _is_first_colon(line: str, at: int) -> bool:
    keyed = re.match(r"\s*(?:-\s+)*[\w-]+(?=:)", line[: at + 1])
    return keyed is not None and keyed.end() == at


def _locate_mark(source: Source, mark: Any, length: int = 1) -> Place:
    return source.place(mark.line + 1, mark.column + 1, length)
