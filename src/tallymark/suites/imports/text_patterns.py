"""Other tools' questions about a text, as regular expressions that give the same answers.

`match` takes no notice of case and of space around an answer; where another tool does, only a
regular expression says exactly the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import compile_regex

NEVER = "(?!)"
"""Is found in no text."""
_FLAGS = re.compile(r"\(\?[ai]\)")
_ASCII = {"d": "0-9", "w": "A-Za-z0-9_"}
_JS_TOKEN = re.compile(
    r"\\(u\{[0-9a-fA-F]+\}|c.|.)|\[\^?|\]|\(\?(?=[a-zA-Z-])|[.$]|[^\\]", re.DOTALL
)
_JS_DOT = r"[^\n\r\u2028\u2029]"


def found(text: str, *, ignore_case: bool = False) -> str:
    """The text stands somewhere in the answer."""
    return found_any([text], ignore_case=ignore_case)


def found_any(texts: Iterable[str], *, ignore_case: bool = False) -> str:
    """One of the texts stands in the answer; of none, none does, and nothing stands in each."""
    listed = list(texts)
    pattern = r"\A" if "" in listed else "|".join(map(re.escape, listed)) or NEVER
    return ("(?i)" if ignore_case else "") + pattern


def starts_with(text: str) -> str:
    """The answer begins with the text."""
    return rf"\A{re.escape(text)}"


def ends_with(text: str) -> str:
    """The answer ends with the text."""
    return rf"{re.escape(text)}\Z"


def equals(text: str) -> str:
    """The answer is the text, to the last space."""
    return rf"\A{re.escape(text)}\Z"


def within_edits(text: str, edits: int) -> str:
    """So many characters, at most, are to be added, taken away or changed."""
    return rf"\A(?:{re.escape(text)}){{e<={edits}}}\Z"


def not_all(patterns: Iterable[str]) -> str:
    """At least one of these is not found."""
    flags, looks = "", ""
    for pattern in patterns:
        head = _FLAGS.match(pattern)
        flags = head[0] if head else flags
        looks += rf"(?=[\s\S]*(?:{pattern[head.end() if head else 0 :]}))"
    return rf"{flags}\A(?!{looks})"


def translate_javascript(pattern: str) -> str | None:
    r"""A regular expression of JavaScript in Python's words; None where it cannot be said.

    `$` is the very end there, `.` no line end of any kind, and `\d`, `\w`, `\b` know ASCII only.
    """
    written, in_class = list[str](), False
    for token in _JS_TOKEN.finditer(pattern):
        text, escaped = token[0], token[1]
        if escaped is not None:
            said = _translate_escape(escaped, in_class)
        elif in_class:
            said = text if text in "]^-" else re.sub(r"[\[&|~]", r"\\\g<0>", text)
            in_class = text != "]"
        else:
            in_class = text[0] == "["
            said = {"$": r"\Z", ".": _JS_DOT}.get(text, text)
        # `[]` and `[^]` hold nothing and anything there, and flags stand outside of a pattern.
        if said is None or (text == "]" and written[-1:] in (["["], ["[^"])) or text[:2] == "(?":
            return None
        written.append(said)
    boundary = re.search(r"(?<!\\)(?:\\\\)*\\[bB]", pattern) is not None
    # With ASCII boundaries `\s` would lose the spaces of other scripts.
    if boundary and r"\s" in pattern.lower():
        return None
    whole = ("(?a)" if boundary else "") + "".join(written)
    try:
        compile_regex(whole)
    except InvalidInput:
        return None
    return whole


def _translate_escape(escaped: str, in_class: bool) -> str | None:
    if escaped in "dw":
        return _ASCII[escaped] if in_class else f"[{_ASCII[escaped]}]"
    if escaped in "DW":
        return None if in_class else f"[^{_ASCII[escaped.lower()]}]"
    if escaped[0] in "cpPk" or escaped.startswith("u{"):
        return None
    return "/" if escaped == "/" else f"\\{escaped}"
