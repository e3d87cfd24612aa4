"""Text that models and tools wrote, made harmless for reports: it may hold anything."""

from __future__ import annotations

import re

# All that XML 1.0 cannot hold, half surrogate pairs included, and what moves a terminal's cursor
# or turns the direction of writing around.
_HARMFUL = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)


def clean(text: str) -> str:
    """The text without control characters; line ends become plain ones."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def cut(text: str, most: int) -> str:
    """At most so many characters, cleaned, and a note on what was left out."""
    if len(text) <= most:
        return clean(text)
    return f"{clean(text[:most])}… ({len(text) - most:,} more characters)"


def one_line(text: str, most: int) -> str:
    """Cleaned, on one line of at most so many characters."""
    line = " ".join(clean(text[: 4 * most + 100]).split())
    return line if len(line) <= most else f"{line[: max(0, most - 1)]}…"
