"""Keeping secrets out of everything that is stored or shown."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
SHORTEST_SECRET = 4
"""Characters that a secret must have: a shorter one would be found everywhere."""
# Fewer characters of a secret, or of its encoding, stand in other text by chance.
_SHORTEST_ENCODED = 8
_SHORTEST_CUT = 6
_CUT_MARK = re.compile(r"\.\.\.|\u2026")
_UNTOUCHED = re.compile("[A-Za-z0-9]+")
_BACKSLASH = r"(?:\\|%(?:25){0,3}5c)"
_ESCAPE = _BACKSLASH + "{1,15}"
"""Number of backslashes after escaping four times."""
_LETTERS = dict(zip("\n\r\t\b\f\v\a\0", "nrtbfva0", strict=True))
_NAMES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}


class Redactor:
    """Puts `***name***` in the place of each secret's value, plain or in common encodings."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        kept = {name: value for name, value in secrets.items() if len(value) >= SHORTEST_SECRET}
        forms = {form: name for name, value in kept.items() for form in _list_forms(value)}
        # The longest first: a secret that begins with another one is taken out whole.
        ordered = sorted(forms.items(), key=lambda each: -len(each[0]))
        self._forms = [(_Form(form), name) for form, name in ordered]
        self._cut = [(_CutForm(value), name) for name, value in kept.items()]

    def text(self, text: str) -> str:
        """The text without secrets, and without the rest of one where the text was cut."""
        present = [(form, name) for form, name in self._forms if form.may_be_in(text)]
        if present:
            # In one pass: what is put in is not looked at again.
            found = re.compile("|".join(f"({form.pattern})" for form, _ in present))
            text = found.sub(lambda match: f"***{present[(match.lastindex or 1) - 1][1]}***", text)
        for form, name in self._cut:
            if form.may_be_in(text):
                text = form.remove(text, name)
        return text

    def redact(self, value: T) -> T:
        """Any data without secrets: text, lists, mappings, records."""
        return self._redact_any(value) if self._forms else value

    def _redact_any(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self._redact_any(key): self._redact_any(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self._redact_any, value))
        if isinstance(value, msgspec.Struct):
            fields = ((key, getattr(value, key)) for key in value.__struct_fields__)
            return msgspec.structs.replace(
                value, **{key: self._redact_any(each) for key, each in fields}
            )
        return value


class _Form:
    """Pattern for one form of a secret, also with characters escaped repeatedly."""

    def __init__(self, form: str) -> None:
        # No encoder touches letters and digits, so they must be there: a quick look for them saves
        # the slow one.
        self.untouched = sorted(set(_UNTOUCHED.findall(form)), key=len, reverse=True)
        self.pattern = "".join(map(_spell, _split(form)))

    def may_be_in(self, text: str) -> bool:
        """Is it worth a closer look?"""
        return all(part in text for part in self.untouched)


class _CutForm(_Form):
    """A beginning of a secret that stands where a text was cut."""

    def __init__(self, value: str) -> None:
        super().__init__(value[:_SHORTEST_CUT])
        self.begin = re.compile(self.pattern)
        self.rest = [re.compile(_spell(each)) for each in _split(value[_SHORTEST_CUT:])]

    def remove(self, text: str, name: str) -> str:
        parts, start = list[str](), 0
        while (found := self.begin.search(text, start)) is not None:
            end = found.end()
            for character in self.rest:
                if (more := character.match(text, end)) is None:
                    break
                end = more.end()
            cut = end == len(text) or _CUT_MARK.match(text, end)
            shown = f"***{name}***" if cut else text[found.start() : end]
            parts.append(text[start : found.start()] + shown)
            start = end
        return "".join([*parts, text[start:]])


def _split(text: str) -> list[str]:
    """Its characters; backslashes together, so that no text is slow to search for them."""
    return re.findall(r"\\+|[^\\]", text)


@cache
def _spell(character: str) -> str:
    """The pattern of a character as it is, or escaped for JSON, Python, URLs or HTML.

    Escaped text may be escaped again: JSON in JSON doubles backslashes, a URL in a URL has `%25`.
    """
    if _UNTOUCHED.fullmatch(character):
        return character
    if character[0] == "\\":
        return f"(?i:{_BACKSLASH}{{{len(character)},{16 * len(character)}}})"
    raw = character.encode("utf-8", "surrogatepass")
    units = re.findall("....", character.encode("utf-16-be", "surrogatepass").hex())
    code = ord(character)
    ways = [
        f"(?:{_ESCAPE})?{re.escape(character)}",
        "".join(f"{_ESCAPE}u{unit}" for unit in units),
        "".join(f"{_ESCAPE}x{byte:02x}" for byte in raw),
        f"{_ESCAPE}(?:u{{0*{code:x}}}|U{code:08x}|x{code:02x})",
        f"(?:{_ESCAPE})?" + "".join(f"%(?:25){{0,3}}{byte:02x}" for byte in raw),
        f"(?:{_ESCAPE})?&(?:amp;){{0,3}}#(?:0*{code}|x0*{code:x});",
    ]
    if character in _LETTERS:
        ways.append(_ESCAPE + _LETTERS[character])
    if character in _NAMES:
        ways.append(f"(?:{_ESCAPE})?&(?:amp;){{0,3}}{_NAMES[character]};")
    if character == " ":
        ways.append(r"\+")
    return f"(?i:{'|'.join(ways)})"


def _list_forms(value: str) -> Iterator[str]:
    """The value, also in other case and as base64 within a longer text; each may be escaped."""
    yield value
    encoded = [value.upper(), value.lower()]
    for text in dict.fromkeys((value, json.dumps(value)[1:-1])):  # JSON that was sent as base64
        raw = text.encode("utf-8", "surrogatepass")
        for before in range(3):
            padded = base64.b64encode(b"\0" * before + raw).decode()
            # Only these characters do not depend on what stands before and after.
            core = padded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
            encoded += [core, core.translate(str.maketrans("+/", "-_"))]
        encoded.append(base64.b64encode(raw).decode())
    yield from (form for form in encoded if len(form) >= _SHORTEST_ENCODED)
