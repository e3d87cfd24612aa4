"""Limits of a trace, and cutting spans that are too large.

A cut text ends with a note, and `Lost` counts what was cut, so nothing is lost silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.text import format_count

if TYPE_CHECKING:
    from tallymark.traces.otel_spans import OtelSpan


class SpanLimits(NamedTuple):
    """Limits of one trace."""

    spans_per_trace: int = 20_000
    bytes_per_span: int = 1_000_000
    bytes_per_request: int = 64_000_000
    """Unpacked."""
    attributes_per_span: int = 1_000


LIMITS = SpanLimits()
_SHORT = 200
"""Characters of a text that are never cut."""


class Lost(msgspec.Struct, frozen=True):
    """Counts of what was refused or cut in a trace."""

    spans_refused: int = 0
    """Beyond the limit of a trace, or without a usable id."""
    spans_cut: int = 0
    characters_cut: int = 0
    attributes_cut: int = 0
    events_cut: int = 0

    def __bool__(self) -> bool:
        return self != _NOTHING

    def __add__(self, other: Lost) -> Lost:
        if not other:
            return self
        names = self.__struct_fields__
        return Lost(*(getattr(self, name) + getattr(other, name) for name in names))

    def describe(self) -> str:
        """A phrase for the sender and for readers of the trace; empty if nothing was lost."""
        said = []
        if self.spans_refused:
            said.append(f"{format_count(self.spans_refused, 'span')} refused")
        if self.spans_cut:
            parts = [
                format_count(count, noun)
                for count, noun in (
                    (self.characters_cut, "character"),
                    (self.attributes_cut, "attribute"),
                    (self.events_cut, "event"),
                )
                if count
            ]
            cut = " and ".join(parts)
            said.append(f"{format_count(self.spans_cut, 'span')} cut by {cut}")
        return ", ".join(said)


_NOTHING = Lost()


def fit_span(span: OtelSpan, size: int, limits: SpanLimits = LIMITS) -> Lost:
    """Cut a span in place to the limits; `size` is its encoded size in bytes."""
    if size <= limits.bytes_per_span and len(span.attributes) <= limits.attributes_per_span:
        return _NOTHING
    extra = max(0, len(span.attributes) - limits.attributes_per_span)
    if extra:
        span.attributes = dict(list(span.attributes.items())[: limits.attributes_per_span])
    before, room = len(span.events), limits.attributes_per_span
    for kept, event in enumerate(span.events):
        room -= 1 + len(event.attributes)
        if room < 0:
            del span.events[kept:]
            break
    cut = _cut_texts(span, limits.bytes_per_span) if size > limits.bytes_per_span else 0
    events = before - len(span.events)
    return Lost(spans_cut=1, characters_cut=cut, attributes_cut=extra, events_cut=events)


def _cut_texts(span: OtelSpan, most: int) -> int:
    texts = [(span.attributes, name) for name in span.attributes]
    texts += [(event.attributes, name) for event in span.events for name in event.attributes]
    # A character takes up to four bytes.
    share = max(_SHORT, most // (4 * max(1, len(texts))))
    return sum(_cut_value(holder, name, share) for holder, name in texts)


def _cut_value(holder: dict[str, Any], name: str, most: int) -> int:
    """Cut an attribute and return the number of removed characters."""
    value = holder[name]
    if not isinstance(value, str):
        if not isinstance(value, list | dict):
            return 0
        value = msgspec.json.encode(value, enc_hook=str).decode()
    cut = len(value) - most
    if cut <= 0:
        return 0
    holder[name] = f"{value[:most]}… [{cut:,} more characters were cut]"
    return cut
