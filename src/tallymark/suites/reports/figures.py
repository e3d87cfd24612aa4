"""Numbers as people write them, and tables of them. None is always "unknown", never 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

UNKNOWN = "unknown"


def score(value: float | None) -> str:
    """A score with two decimals, or four significant digits where two decimals would hide it."""
    if value is None:
        return "undefined"
    if value != 0 and abs(value) < 0.1:
        return f"{value:.4g}"
    return f"{value:.2f}" if abs(value) < 1e12 else f"{value:.6g}"


def money(value: float | None) -> str:
    """US dollars: `$0.0177`, `$12.50`."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    digits = f"{size:,.2f}" if size >= 10 else f"{size:.4f}" if size >= 0.001 else f"{size:.2g}"
    return f"{'-' if value < 0 else ''}${digits}"


def seconds(value: float | None) -> str:
    """A duration that is given in seconds: `84 ms`, `0.84 s`, `95 s`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 0.1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.2f} s" if abs(value) < 60 else f"{value:,.0f} s"


def percent(value: float | None) -> str:
    """Of something that is given from 0 to 100: `80.0%`."""
    return UNKNOWN if value is None else f"{value:.1f}%"


def signed(write: Callable[[float | None], str], value: float | None) -> str:
    """A difference, with its sign."""
    return ("+" if value is not None and value > 0 else "") + write(value)


def p_value(value: float | None) -> str:
    """A p-value with two significant digits."""
    if value is None:
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def counted(count: int, noun: str) -> str:
    """`1 case`, `1,000 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(unix: float | None) -> str:
    """A point in time, UTC."""
    return UNKNOWN if not unix else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M} UTC"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal columns as lines, the first column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
