"""Templates in text: `{{var('name')}}` and `{{secret('name')}}`.

What is filled in is never looked at again, so data cannot ask for a secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

TemplateKind: TypeAlias = Literal["var", "secret"]
TemplateLookup: TypeAlias = Callable[[str, str], str]
"""From kind and name to the value."""

_TEMPLATE = re.compile(r"""\{\{\s*(var|secret)\s*\(\s*(?:'([^'{}]+)'|"([^"{}]+)")\s*\)\s*\}\}""")
_NEAR_MISS = re.compile(r"\{\{\s*(?:vars?|secrets?|env)\b[^{}]*\}\}", re.IGNORECASE)


def find_templates(text: str) -> Iterator[tuple[TemplateKind, str]]:
    """Kind and name of each template."""
    if "{{" in text:
        for match in _TEMPLATE.finditer(text):
            kind: TemplateKind = "var" if match[1] == "var" else "secret"
            yield kind, (match[2] or match[3]).strip()


def find_near_misses(text: str) -> Iterator[str]:
    """What looks like a template, and is sent as it stands."""
    if "{{" in text:
        for match in _NEAR_MISS.finditer(text):
            if not _TEMPLATE.fullmatch(match[0]):
                yield match[0]


def has_templates(value: Any) -> bool:
    """Is there a template in any text of some plain data?"""
    if isinstance(value, str):
        return any(True for _ in find_templates(value))
    if isinstance(value, dict):
        return any(map(has_templates, value.values()))
    return isinstance(value, list | tuple) and any(map(has_templates, value))


def fill_templates(value: Any, lookup: TemplateLookup) -> Any:
    """Plain data with every template replaced by its value."""
    if isinstance(value, str):
        if "{{" not in value:
            return value
        # In one pass: what is filled in is never looked at again, so data cannot ask for a secret.
        return _TEMPLATE.sub(lambda m: lookup(m[1], (m[2] or m[3]).strip()), value)
    if isinstance(value, dict):
        return {key: fill_templates(each, lookup) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fill_templates(each, lookup) for each in value)
    return value


def write_value(value: Any) -> str:
    """How a value is written into text: as it is, or as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
