"""Keeping secrets out of everything that is stored or shown."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, quote_plus

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

T = TypeVar("T")
SHORTEST_SECRET = 4
"""Characters that a secret must have: a shorter one would be found everywhere."""
# Fewer characters of a secret, or of its encoding, stand in other text by chance.
_SHORTEST_ENCODED = 8
_SHORTEST_CUT = 6
_CUT_MARKS = ("...", "\u2026")


class Redactor:
    """Puts `***name***` in the place of each secret's value, plain or in a common encoding."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = {
            name: value for name, value in secrets.items() if len(value) >= SHORTEST_SECRET
        }
        forms = {form: name for name, value in self._secrets.items() for form in _list_forms(value)}
        # The longest first: a secret that begins with another one is taken out whole.
        self._forms = dict(sorted(forms.items(), key=lambda each: -len(each[0])))

    def text(self, text: str) -> str:
        """The text without secrets, and without the rest of one where the text was cut."""
        present = [form for form in self._forms if form in text]
        if present:
            found = re.compile("|".join(map(re.escape, present)))
            text = found.sub(lambda match: f"***{self._forms[match[0]]}***", text)
        for name, value in self._secrets.items():
            if value[:_SHORTEST_CUT] in text:
                text = _remove_remains(text, name, value)
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


def _remove_remains(text: str, name: str, value: str) -> str:
    """Takes out a beginning of the secret that stands where a text was cut."""
    parts, start = [], 0
    while (at := text.find(value[:_SHORTEST_CUT], start)) >= 0:
        end = at
        while end < len(text) and end - at < len(value) and text[end] == value[end - at]:
            end += 1
        cut = end == len(text) or text.startswith(_CUT_MARKS, end)
        parts.append(text[start:at] + (f"***{name}***" if cut else text[at:end]))
        start = end
    return "".join([*parts, text[start:]])


def _list_forms(value: str) -> Iterator[str]:
    """How a value may look in a URL, in JSON, in base64 within a longer text, or in other case."""
    raw = value.encode("utf-8", "surrogatepass")
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (value, *escaped, repr(value)[1:-1])
    encoded = [quote(raw, safe=""), quote(raw), quote_plus(raw), value.upper(), value.lower()]
    for before in range(3):
        padded = base64.b64encode(b"\0" * before + raw).decode()
        # Only these characters do not depend on what stands before and after.
        core = padded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        encoded += [core, core.translate(str.maketrans("+/", "-_"))]
    encoded.append(base64.b64encode(raw).decode())
    yield from (form for form in encoded if len(form) >= _SHORTEST_ENCODED)
