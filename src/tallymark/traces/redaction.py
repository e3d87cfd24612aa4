"""Redaction before storage: attributes by name, texts by pattern.

A matching attribute loses its value; in texts, each match of a pattern is replaced. If a pattern
takes too long, the whole text is replaced, because the rest of it was not searched.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Any, Final

from tallymark.errors import InvalidInput
from tallymark.text import BACKSPACE, BACKSPACE_HINT
from tallymark.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallymark.traces.otlp_export import SpanGroup

REDACTED: Final = "[redacted]"
_SECONDS = 0.5
_LONGEST_PATTERN = 500
_MOST_RULES = 100
_STRUCTURE = frozenset(
    {"trace_id", "span_id", "parent_id", "span_type", "status", "output_is_answer"}
)
"""Fields that hold a trace together and contain no text."""


class Redactor:
    """The rules of one tenant."""

    def __init__(self, attributes: Sequence[str], patterns: Sequence[str]) -> None:
        """A pattern that cannot be read is an `InvalidInput`."""
        if len(attributes) + len(patterns) > _MOST_RULES:
            raise InvalidInput(f"there may be {_MOST_RULES} redaction rules")
        globs = "|".join(fnmatch.translate(each.lower()) for each in attributes)
        self._names = re.compile(globs) if attributes else None
        self._texts = _compile(patterns) if patterns else None

    def clean_groups(self, groups: Sequence[SpanGroup]) -> None:
        """Redacts spans in place."""
        for group in groups:
            self._clean_mapping(group.resource)
            for span in group.spans:
                self._clean_mapping(span.attributes)
                span.name = self.clean_text(span.name)
                span.message = self.clean_text(span.message)
                for event in span.events:
                    self._clean_mapping(event.attributes)

    def clean_trace(self, trace: Trace) -> Trace:
        """A trace of another dialect without what must not be stored."""
        plain = trace.to_dict()
        self._clean_mapping(plain, _STRUCTURE)
        return Trace.from_dict(plain)

    def clean_text(self, text: str) -> str:
        """A text without what fits a pattern."""
        if self._texts is None or not text:
            return text
        try:
            return self._texts(text)
        except TimeoutError:
            return REDACTED

    def _clean_mapping(self, mapping: dict[str, Any], kept: frozenset[str] = frozenset()) -> None:
        for name, value in mapping.items():
            if name in kept:
                continue
            if self._names is not None and self._names.match(name.lower()):
                mapping[name] = REDACTED
            else:
                # Below metadata, nothing holds the trace together.
                deeper = kept if name == "spans" else frozenset[str]()
                mapping[name] = self._clean_value(value, deeper)

    def _clean_value(self, value: Any, kept: frozenset[str]) -> Any:
        if isinstance(value, str):
            return self.clean_text(value)
        if isinstance(value, list):
            return [self._clean_value(each, kept) for each in value]
        if isinstance(value, dict):
            value = dict(value)
            self._clean_mapping(value, kept)
        return value


def _compile(patterns: Sequence[str]) -> Callable[[str], str]:
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 (40 ms)

    for each in patterns:
        if len(each) > _LONGEST_PATTERN:
            raise InvalidInput(f"a redaction pattern has at most {_LONGEST_PATTERN} characters")
        if "\b" in each:
            said = f"the redaction pattern {each!r} cannot be read: {BACKSPACE}"
            raise InvalidInput(said, hint=BACKSPACE_HINT)
        try:
            found = regex.compile(each)
        except regex.error as error:
            raise InvalidInput(f"the redaction pattern {each!r} cannot be read: {error}") from None
        if found.search("") is not None:
            raise InvalidInput(
                f"the redaction pattern {each!r} fits everywhere",
                hint="write one that needs at least a character",
            )
    joined = regex.compile("|".join(f"(?:{each})" for each in patterns))

    def clean(text: str) -> str:
        cleaned: str = joined.sub(REDACTED, text, timeout=_SECONDS)
        return cleaned

    return clean
