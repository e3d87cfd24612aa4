"""Conditions of other tools on a text, as equivalent regular expressions.

`match` ignores case and surrounding space; where another tool differs, only a regular expression is
exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tallymark.errors import InvalidInput
from tallymark.scorers.timed_regex import compile_regex

NEVER = "(?!)"
"""Is found in no text."""
_FLAGS = re.compile(r"\(\?[ai]\)")
_JS_CLASSES = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r" \t\n\v\f\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}
_JS_TOKEN = re.compile(
    r"(?P<any>\[(?:\\s\\S|\\S\\s|\\d\\D|\\D\\d|\\w\\W|\\W\\w|\^)\])"
    r"|\\(?P<escaped>u\{[0-9a-fA-F]+\}|c.|[1-9][0-9]*|.)|\[\^?|\]|\(\?(?=[a-zA-Z-])|[.$]|[^\\]",
    re.DOTALL,
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
    """Maximum number of characters to add, remove or change."""
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
    r"""A JavaScript regular expression in Python's syntax; None if there is no equivalent.

    There, `$` is the very end, `.` excludes every kind of line end, `\d`, `\w` and `\b` are
    ASCII only, and `\s` matches other spaces.
    """
    written, in_class = list[str](), False
    for token in _JS_TOKEN.finditer(pattern):
        text = token[0]
        if token["any"]:
            said = None if in_class else "(?s:.)"
        elif token["escaped"]:
            said = _translate_escape(token["escaped"], in_class)
        elif in_class:
            # After a class, `-` is itself there, and here it would begin a range.
            after_class = text == "-" and written[-1] in _JS_CLASSES.values()
            said = rf"\{text}" if after_class or text in "[&|~" else text
            in_class = text != "]"
        else:
            in_class = text[0] == "["
            said = {"$": r"\Z", ".": _JS_DOT}.get(text, text)
        # `[]` holds nothing there, and flags stand outside of a pattern.
        if said is None or (text == "]" and written[-1:] == ["["]) or text == "(?":
            return None
        written.append(said)
    whole = "(?a)" + "".join(written) if {r"\b", r"\B"} & set(written) else "".join(written)
    try:
        compile_regex(whole)
    except InvalidInput:
        return None
    return whole


def _translate_escape(escaped: str, in_class: bool) -> str | None:
    if escaped in "dws":
        return _JS_CLASSES[escaped] if in_class else f"[{_JS_CLASSES[escaped]}]"
    if escaped in "DWS":
        return None if in_class else f"[^{_JS_CLASSES[escaped.lower()]}]"
    if escaped[0] in "cpPk" or escaped.startswith("u{"):
        return None
    if escaped.isdigit() and escaped != "0" and not in_class:
        return f"(?({escaped})\\{escaped})"  # of a group that took no part, nothing
    return "/" if escaped == "/" else f"\\{escaped}"
