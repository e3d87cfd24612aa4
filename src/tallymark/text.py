"""Every number and word that a person reads, formatted once: numbers, moments, lines, tables.

A number that is not known is "unknown", a score that has no value is "undefined"; neither is ever
a zero. What is cut ends in "..." where we or the user wrote it, and in "…" where models or tools
did: their text is cleaned as well, because it may hold anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

UNKNOWN = "unknown"
UNDEFINED = "undefined"

# All that XML 1.0 cannot hold, half surrogate pairs included, and what moves a terminal's cursor
# or turns the direction of writing around.
_HARMFUL = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)


# Numbers.


def format_score(value: float | None) -> str:
    """A score with two decimals, or four significant digits where two decimals would hide it."""
    if value is None:
        return UNDEFINED
    if value != 0 and abs(value) < 0.1:
        return f"{value:.4g}"
    return f"{value:.2f}" if abs(value) < 1e12 else f"{value:.6g}"


def format_digits(value: float | None) -> str:
    """A value of a board, with all its digits up to the tenth; `-` where there is none."""
    return "-" if value is None else f"{value:.10g}"


def format_money(value: float | None) -> str:
    """US dollars: `$0.0177`, `$12.50`."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    digits = f"{size:,.2f}" if size >= 10 else f"{size:.4f}" if size >= 0.001 else f"{size:.2g}"
    return f"{'-' if value < 0 else ''}${digits}"


def format_seconds(value: float | None) -> str:
    """A duration that is given in seconds: `84 ms`, `0.84 s`, `95 s`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if abs(value) < 60 else f"{value:,.0f} s"


def format_milliseconds(value: float) -> str:
    """A duration that is given in milliseconds, with one decimal: `84 ms`, `0.8 s`, `95.0 s`."""
    return f"{value / 1000:.1f} s" if value >= 100 else f"{value:.0f} ms"


def format_percent(value: float | None) -> str:
    """Of something that is given from 0 to 100: `80.0%`."""
    return UNKNOWN if value is None else f"{value:.1f}%"


def format_share(value: float | None) -> str:
    """Of something that is given from 0 to 1, for a column: `80 %`, `-` where it is not known."""
    return "-" if value is None else f"{100 * value:.0f} %"


def format_difference(write: Callable[[float | None], str], value: float | None) -> str:
    """A difference, with its sign."""
    return ("+" if value is not None and value > 0 else "") + write(value)


def format_p_value(value: float | None) -> str:
    """A p-value with two significant digits."""
    if value is None:
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def format_count(count: int, noun: str) -> str:
    """`1 case`, `1,000 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Moments. The two round parts of a second differently, so they stay two.


def format_moment(unix: float) -> str:
    """A point in time, for a column whose head says that it is UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(unix))


def format_utc_moment(unix: float | None) -> str:
    """A point in time with its zone, which is UTC."""
    return UNKNOWN if not unix else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M} UTC"


# Text that we or the user wrote, cut to its place.


def shorten(text: str, most: int = 120) -> str:
    """At most so many characters; line ends stay."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shorten_line(text: str, most: int = 32) -> str:
    """On one line, and cut to what a column has room for."""
    return shorten(" ".join(text.split()), most)


def shorten_utf8_line(text: str, most: int) -> str:
    """On one line that any file and terminal can take: half surrogate pairs become `?`."""
    return shorten_line(text.encode("utf-8", "replace").decode(), most)


def list_some(texts: Sequence[str], *, between: str = ", ", most: int = 8) -> str:
    """The texts in one line; after the first few, how many there are more."""
    line = between.join(shorten(text, 40) for text in texts[:most])
    return line if len(texts) <= most else f"{line}{between}and {len(texts) - most} more"


def quote_some(texts: Sequence[str]) -> str:
    """The texts in one line, each in quotes."""
    return list_some([repr(shorten(text, 38)) for text in texts])


# Text that models and tools wrote, made harmless.


def clean(text: str) -> str:
    """The text without control characters; line ends become plain ones."""
    if text.isascii() and text.isprintable():
        return text
    return _HARMFUL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def clean_excerpt(text: str, most: int) -> str:
    """At most so many characters, cleaned, and a note on what was left out."""
    if len(text) <= most:
        return clean(text)
    return f"{clean(text[:most])}… ({len(text) - most:,} more characters)"


def clean_line(text: str, most: int) -> str:
    """Cleaned, on one line of at most so many characters."""
    # Cut before it is cleaned too, because a model may have written megabytes.
    line = " ".join(clean(text[: 4 * most + 100]).split())
    return line if len(line) <= most else f"{line[: max(0, most - 1)]}…"


# Tables.


def format_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> str:
    """Lines of aligned columns; those whose heads are in `right` hold numbers."""
    return "\n".join(_align([heads, *rows], [head in right for head in heads]))


def align_numbers(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal columns as lines, the first column to the left and the others to the right."""
    return _align(rows, [place > 0 for place in range(len(rows[0]))] if rows else [])


def _align(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    justify = [str.rjust if each else str.ljust for each in right]
    return [
        "  ".join(
            put(cell, width) for put, cell, width in zip(justify, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
