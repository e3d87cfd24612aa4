"""Every number and word that a person reads, formatted once: numbers, moments, lines, tables.

A number that is not known is "unknown", a score that has no value is "undefined"; neither is ever
a zero. What is cut ends in "..." where we or the user wrote it, and in "…" where models or tools
did: their text is cleaned as well, because it may hold anything.
"""

from __future__ import annotations

import math
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table as RichTable
    from rich.text import Text

columns = 80
"""Width of the terminal, where a command has one. See `get_columns`."""
_FEWEST_COLUMNS, _MOST_COLUMNS = 40, 120
"""Limits of the width: narrower, columns do not fit; wider, lines are hard to follow."""
Amount = TypeVar("Amount", int, float)
UNKNOWN = "unknown"
BACKSPACE = "it holds a backspace character, which \\b is inside double quotes"
BACKSPACE_HINT = "write \\\\b, or in YAML put the pattern in single quotes"
"""Python, JSON and double quotes in YAML read the `\\b` of a pattern as a character."""
UNDEFINED = "undefined"
MINUS = "\N{MINUS SIGN}"

program = "tally"
"""The name of the running command, used in hints."""
_HINTED = re.compile(r"(?<![\w./-])tally(?= [a-z]+\b)")
place = ""
"""The `--db` that was typed, as ` --db other.db`: commands that messages propose want it too."""
_PROPOSED = re.compile(r"(?m)(?:: |; see |^  )tally [a-z]+\b(?!.* --(?:db|help)\b).*$")

# All that XML 1.0 cannot hold, half surrogate pairs included, and what moves a terminal's cursor
# or turns the direction of writing around.
_HARMFUL = re.compile(
    "[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u202a-\u202e\u2066-\u2069]"
)
MOST_CELL_CHARACTERS = 32_000
"""Longest cell in CSV: spreadsheets break one of more than 32,767 into pieces."""
_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\n", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 (as they are)


# Numbers.


def add_exactly(parts: Collection[float]) -> float:
    """The sum rounded to the 15 digits that a float holds of a decimal number: 3 times 0.1 is
    0.3.
    """
    try:
        return float(f"{math.fsum(parts):.15g}") if len(parts) > 1 else sum(parts)
    except OverflowError:  # more than a float holds
        return sum(parts)


def add_known(parts: Iterable[Amount | None]) -> Amount | None:
    """The sum as `add_exactly` gives it, or of whole numbers; None where a part is not known."""
    known = list(parts)
    given = [part for part in known if part is not None]
    if len(given) < len(known):
        return None
    if len(given) < 2 or all(isinstance(part, int) for part in given):
        return sum(given)
    return add_exactly(given)  # type: ignore[return-value]  # no int comes here


def format_score(value: float | None, more: int = 0) -> str:
    """A score with two decimals, or four significant digits where two decimals would hide it.

    Here and below, `more` digits are for `format_beside`.
    """
    return UNDEFINED if value is None else _write_decimals(value, 2 + more, 4 + more)


def format_mean(value: float | None, more: int = 0) -> str:
    """A scorer's value or a rate from 0 to 1, for a column: three decimals, `-` for none."""
    return "-" if value is None else _write_decimals(value, 3 + more, 3 + more, 0.001)


def format_mean_ends(low: float, high: float) -> str:
    """The interval of a scorer's mean, to three decimals: an end is no more exact."""
    return f"{low:.3f} to {high:.3f}"


def format_value(value: float | None, more: int = 0) -> str:
    """A value in a sentence: `0.7`."""
    return _trim(format_mean(value, more))


def format_digits(value: float | None) -> str:
    """A value of a board, with all its digits up to the tenth; `-` where there is none."""
    return format_number(value, 10, 0)


def format_number(value: float | None, digits: int = 6, least: int = 2) -> str:
    """Format any other number with this many significant digits, or `least` decimals if more."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return UNDEFINED
    if value == 0 or not _TINY <= abs(value) < _HUGE:
        return f"{value + 0.0:.{digits}g}"  # -0.0 is 0
    decimals = max(least, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def format_rating(value: float) -> str:
    """A rating, as chess writes it: `1512`."""
    return f"{value:.0f}"


def format_money(value: float | None, more: int = 0) -> str:
    """US dollars, never with an exponent: `$0.0177`, `$12.50`, `$0.0000005`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size, sign = abs(value), "-" if value < 0 else ""
    if 0 < size < _TINY:
        return f"{sign}$0.{'0' * 14}1 or less"
    if size >= _HUGE:
        return f"{sign}${_HUGE:,.0f} or more"
    if size < 0.001:
        return f"{sign}${format_number(size, 2 + more)}"
    return f"{sign}${size:,.{(2 if size >= 9.99995 else 4) + more}f}"


def with_minus(write: Callable[..., str]) -> Callable[..., str]:
    """A number as `write` formats it, with a minus sign for pages and charts.

    Text that programs read or people type again has a hyphen.
    """

    def written(*given: Any, **more: Any) -> str:
        shown = write(*given, **more)
        if shown[:1] != "-" or not shown[1:].lstrip("$")[:1].isdigit():
            return shown
        # What rounds to nothing has no sign.
        return f"{MINUS}{shown[1:]}" if any(each in "123456789" for each in shown) else shown[1:]

    return written


def format_tick(value: float) -> str:
    """A round number at an axis."""
    return format_digits(value) if abs(value) < 1e9 else f"{value:.3g}"


def format_measure(value: float, measure: str, *digits: int) -> str:
    """A measure of traces in its unit: `cost`, `duration`, or a plain number."""
    write = {"cost": format_money, "duration": format_seconds}.get(measure)
    return format_number(value, *digits) if write is None else write(value)


def format_money_tick(value: float) -> str:
    """Round dollars, without the cents that say nothing."""
    return _trim(format_money(value))


def format_seconds(value: float | None, more: int = 0) -> str:
    """A duration that is given in seconds: `1.2 ms`, `84 ms`, `0.84 s`, `95 s`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if not more and 0.1 <= value < 60:  # as most
        return f"{value:.2f} s"
    if value == 0:
        return "0 s"
    if abs(value) < 0.01:
        milliseconds = round(value * 1000, 1 + more) + 0.0  # -0.0 is 0
        return f"{milliseconds:.{1 + more}f}".rstrip("0").rstrip(".") + " ms"
    if abs(value) < 0.1:
        return f"{value * 1000:.{more}f} ms"
    return f"{value:.{2 + more}f} s" if abs(value) < 60 else f"{value:,.{more}f} s"


def format_percent(value: float | None) -> str:
    """A value from 0 to 100 as a percentage: `80.0%`."""
    return UNKNOWN if value is None else f"{round(value, 1) + 0.0:.1f}%"  # -0.0 is 0


def format_points(value: float | None) -> str:
    """A difference between percentages: `12.5`."""
    return UNKNOWN if value is None else f"{round(value, 1) + 0.0:.1f}"


def format_share(value: float | None) -> str:
    """A share from 0 to 1 for a column: `80.0%`, `-` where it is unknown."""
    return "-" if value is None else format_percent(100 * value)


def format_difference(write: Callable[[float | None], str], value: float | None) -> str:
    """A difference, with its sign unless it reads as none."""
    text = write(value)
    return f"+{text}" if value is not None and value > 0 and re.search("[1-9]", text) else text


def format_beside(write: Callable[[float, int], str], value: float, bound: float) -> str:
    """A number near a bound, with more digits where it would look equal to the bound and is not."""
    more = 0
    while value != bound and more < 15 and write(value, more) == write(bound, more):
        more += 3
    return write(value, more)


def format_p_value(value: float | None, more: int = 0) -> str:
    """A p-value with two significant digits."""
    if value is None:
        return UNKNOWN
    return "< 0.001" if value < 0.001 else f"{value:.{(3 if value < 0.1 else 2) + more}f}"


def format_count(count: int, noun: str) -> str:
    """`1 case`, `1,000 cases`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_TINY, _HUGE = 1e-15, 1e15
"""Beyond these, numbers other than money have an exponent."""


def _write_decimals(value: float, decimals: int, digits: int, least: float = 0.1) -> str:
    """Format with this many decimals; values below `least`, or huge, with significant digits."""
    if value == 0 or least <= abs(value) < _HUGE:
        return f"{value + 0.0:,.{decimals}f}"
    return format_number(value, digits, decimals)


def _trim(text: str) -> str:
    """Without the zeros behind the point that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


# Moments. The two round parts of a second differently, so they stay two.


def format_moment(unix: float) -> str:
    """A point in time, for a column whose head names UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(unix))


def format_utc_moment(unix: float | None) -> str:
    """A point in time with its zone, which is UTC."""
    return UNKNOWN if not unix else f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M} UTC"


# Text that we or the user wrote, cut to its place.


def shorten(text: str, most: int = 120) -> str:
    """At most this many characters, with line ends."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shorten_line(text: str, most: int = 32) -> str:
    """One line, cut to the width of a column."""
    return shorten(" ".join(text.split()), most)


def list_some(texts: Sequence[str], *, between: str = ", ", most: int = 8) -> str:
    """The texts in one line; after the first few, how many there are more."""
    if len(texts) == 1:
        return shorten(texts[0], 40)
    line = between.join([shorten(text, 40) for text in texts[:most]])
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


def escape(document: str) -> str:
    """A JSON document in which nothing acts on a terminal: such characters by their numbers."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def clean_excerpt(text: str, most: int) -> str:
    """At most this many characters, cleaned, with a note on what was left out."""
    if len(text) <= most:
        return clean(text)
    return f"{clean(text[:most])}… ({len(text) - most:,} more characters)"


def format_cell(text: str) -> str:
    """Text for CSV that a spreadsheet shows and never takes for a formula."""
    plain = clean_excerpt(text, MOST_CELL_CHARACTERS)
    return f"'{plain}" if plain.lstrip(" ").startswith(_FORMULA_SIGNS) else plain


def clean_line(text: str, most: int = 1_000_000) -> str:
    """Cleaned, on one line of at most this many characters."""
    # Cut before it is cleaned too, because a model may have written megabytes.
    line = " ".join(clean(text[: 4 * most + 100]).split())
    return line if len(line) <= most else f"{line[: max(0, most - 1)]}…"


# What a terminal shows.


def get_columns() -> int:
    """Width of output in columns."""
    return min(_MOST_COLUMNS, max(_FEWEST_COLUMNS, columns))


def fit_line(text: str, columns: int) -> str:
    """Cleaned, on one line that fills this many columns of a terminal."""
    line = clean_line(text, columns)
    if not line.isascii():
        line = _mark_wide(line)
        if len(line) > columns:  # never in the middle of a wide character
            line = f"{line[: columns - 1 - (line[columns - 1] == _SECOND_HALF)]}…"
    return f"{line:<{columns}}".replace(_SECOND_HALF, "")


_SECOND_HALF = "\x00"
"""Stands behind a character that takes two columns while columns are counted."""


def _mark_wide(text: str) -> str:
    from unicodedata import east_asian_width  # noqa: PLC0415 (not there in the sandbox)

    return "".join(each + _SECOND_HALF * (east_asian_width(each) in "WF") for each in text)


class StyledLine(NamedTuple):
    """A line of text, and how a terminal that has colours shows it."""

    text: str
    style: str = ""

    def __str__(self) -> str:
        return self.text


def wrap_lines(
    text: str, style: str = "", *, indent: int = 2, whole_words: bool = False
) -> Iterator[StyledLine]:
    """A text over as many lines as it needs; a command in it stays whole, to be copied."""
    marked = text if text.isascii() else _mark_wide(text)
    # Where the halves of a character come on two lines, the first line has both.
    width = get_columns() - (_SECOND_HALF in marked)
    marked = _WHOLE.sub(lambda found: found[0].replace(" ", _INNER_SPACE), marked)
    lead = len(marked) - len(marked.lstrip(" "))
    lines = textwrap.wrap(
        marked[lead:],
        width,
        initial_indent=" " * lead,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=not (whole_words or _INNER_SPACE in marked),
    )
    for line in lines:
        yield StyledLine(line.replace(_SECOND_HALF, "").replace(_INNER_SPACE, " "), style)


_INNER_SPACE = "\x01"
"""Stands for the spaces of what must not be broken."""
_WHOLE = re.compile(r"(?:(?<=: )|(?<=\bsee )|(?<=  )|^)tally [a-z]+\b.*$|`[^`]*`")


def wrap_paragraphs(text: str) -> Iterator[StyledLine]:
    """Prose with paragraphs and lists, as in Markdown; code, tables and headings stay."""
    prose: list[str] = []
    indent, fenced = 0, False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        item = None if fenced else _LIST_ITEM.match(line)
        goes_on = bool(prose and indent and line[:1].isspace() and line.strip())
        plain = line[:1] not in ("", "|", "#", ">") and not line[0].isspace()
        if fenced or fence or not (item or goes_on or plain):
            yield from wrap_lines(" ".join(prose), indent=indent)
            yield StyledLine(line)
            prose, indent, fenced = [], 0, fenced ^ fence
            continue
        if item:
            yield from wrap_lines(" ".join(prose), indent=indent)
            prose, indent = [], item.end()
        prose.append(line.strip())
        if line.endswith("  "):  # a line end that is meant
            yield from wrap_lines(" ".join(prose), indent=indent)
            prose = []
    yield from wrap_lines(" ".join(prose), indent=indent)


_LIST_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +")


class Table(NamedTuple):
    """Rows under heads. As a text, a row is one line and every value is whole."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[str] = ()
    """The heads of columns that hold numbers."""
    wrap: Collection[str] = ()
    """The heads of columns of prose, which a narrow terminal may break over several lines."""
    cut: Collection[str] = ()
    """The heads of columns whose long values a narrow terminal cuts in the middle, as of models."""
    drop: Sequence[str] = ()
    """The heads of columns that a narrow terminal leaves out, the least important first."""

    def __str__(self) -> str:
        right = [head in self.right for head in self.heads]
        return "\n".join(align([self.heads, *self.rows], right))

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RichTable | Text]:
        """On a terminal: bold heads, colours for outcomes, and no line wider than the window."""
        from rich.table import Table as RichTable  # noqa: PLC0415 (heavy, and not for pipes)
        from rich.text import Text  # noqa: PLC0415

        columns = [list(map(clean_line, column)) for column in zip(*self.rows, strict=True)]
        widths = self._find_widths(columns, options.max_width)
        table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        heads = _cut_heads(self.heads, widths)
        shown: list[list[Text]] = []
        for place, width in widths.items():
            head, cells = self.heads[place], columns[place] if columns else []
            prose = head in self.wrap
            table.add_column(
                Text(heads[place]),
                justify="right" if head in self.right else "left",
                no_wrap=not prose,
                overflow="fold" if prose else "ellipsis",
                width=width,
            )
            # As `Text`, nothing in a cell is taken for rich's markup.
            short = cells if prose else shorten_middles(cells, width)
            shown.append(
                [
                    Text(text, _OUTCOME_STYLES.get(cell, "") if head in _OUTCOMES else "")
                    for text, cell in zip(short, cells, strict=True)
                ]
            )
        for row in zip(*shown, strict=True):
            table.add_row(*row)
        yield table
        if left := [head for place, head in enumerate(self.heads) if place not in widths]:
            yield Text(f"a wider window also shows {', '.join(left)}", "dim")

    def _find_widths(self, columns: Sequence[Sequence[str]], room: int) -> dict[int, int]:
        """Widths of the columns by their places; ids, names and dates are not cut."""
        from rich.cells import cell_len  # noqa: PLC0415 (heavy, and not for pipes)

        whole = {
            place: max(map(cell_len, (head, *(columns[place] if columns else ()))))
            for place, head in enumerate(self.heads)
        }
        bends = {place for place, head in enumerate(self.heads) if head in (*self.wrap, *self.cut)}
        widths = {
            place: min(width, _LEAST_BENT) if place in bends else width
            for place, width in whole.items()
        }

        def find_spare() -> int:
            return room - sum(widths.values()) - 2 * (len(widths) - 1)

        for head in self.drop:
            if find_spare() < 0:
                del widths[self.heads.index(head)]
        # Where even that is too wide, what is widest is cut.
        while find_spare() < 0 and max(widths.values()) > _LEAST_CUT:
            widths[max(widths, key=lambda place: widths[place])] -= 1
        while find_spare() > 0 and (some := [p for p in widths if widths[p] < whole[p]]):
            widths[min(some, key=lambda place: widths[place])] += 1
        return widths


_LEAST_BENT, _LEAST_CUT = 14, 6
"""The least widths of columns that may be wrapped or cut, and of all columns."""


def _cut_heads(heads: Sequence[str], widths: Mapping[int, int]) -> dict[int, str]:
    """Cut the heads of columns that are narrower, so that they still differ."""
    long = [place for place, width in widths.items() if len(heads[place]) > width]
    room = min((widths[place] for place in long), default=0)
    short = dict(zip(long, shorten_middles([heads[place] for place in long], room), strict=True))
    return {place: short.get(place, heads[place]) for place in widths}


def shorten_middles(texts: Sequence[str], most: int) -> list[str]:
    """Texts of a column, cut in the middle to this many characters, where they stay different."""
    different = set(texts)
    if max(map(len, different), default=0) <= most:
        return list(texts)
    # The end of a name is more specific than its beginning: start with most of it.
    preferred = 2 * (most - 1) // 3
    for end in sorted(range(most), key=lambda end: abs(end - preferred)):
        short = {text: _cut_middle(text, most, end) for text in different}
        if len(set(short.values())) == len(different):
            return [short[text] for text in texts]
    numbers = {text: str(number) for number, text in enumerate(dict.fromkeys(texts), 1)}
    return [f"{text[: most - 1 - len(numbers[text])]}…{numbers[text]}" for text in texts]


def _cut_middle(text: str, most: int, end: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


_OUTCOMES = frozenset({"STATUS", "STATE", "RESULT", "HERE"})
_OUTCOME_STYLES = {
    **dict.fromkeys(("completed", "scored", "win", "have"), "green"),
    **dict.fromkeys(("partial_failure", "cancelled", "interrupted", "draw", "expired"), "yellow"),
    **dict.fromkeys(("failed", "loss", "missing"), "red"),
}


def align(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Rows of equal columns as lines; those columns that hold numbers end at the same place."""
    measure: Callable[[str], int] = len  # in the sandbox, where a formula may be explained
    with suppress(ImportError):
        from rich.cells import cell_len as measure  # noqa: PLC0415 (few callers make tables)
    cells = [[cell if cell.isprintable() else clean_line(cell) for cell in row] for row in rows]
    widths = [max(map(measure, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        gaps = [" " * (wide - measure(cell)) for cell, wide in zip(row, widths, strict=True)]
        sides = zip(row, gaps, right, strict=True)
        lines.append(
            "  ".join(gap + cell if last else cell + gap for cell, gap, last in sides).rstrip()
        )
    return lines


def align_numbers(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equal columns as lines, the first column to the left and the others to the right."""
    return align(rows, [place > 0 for place in range(len(rows[0]))] if rows else [])


def complete_command(message: str) -> str:
    """Complete the commands at the ends of a message's lines, so that they work as pasted."""
    return _PROPOSED.sub(lambda found: found[0] + place, message) if place else message


def say(*parts: str | StyledLine | Table, err: bool = False, wrap: bool = False) -> None:
    """Print for people: on a terminal with colours and within its width, else as plain text.

    `NO_COLOR`, `FORCE_COLOR` and `TERM=dumb` are heeded. What would move the cursor is left out.
    With `wrap`, messages are broken at words, in a pipe at 80 columns.
    """
    stream = sys.stderr if err else sys.stdout
    # Styled lines and tables hold what others wrote, messages do not.
    parts = tuple(complete_command(each) if isinstance(each, str) else each for each in parts)
    if wrap:
        parts = tuple(line for part in parts for line in _wrap_message(part))
    plain = all(isinstance(part, str) for part in parts)
    if plain or not (stream.isatty() or os.environ.get("FORCE_COLOR")):
        texts = (part.text if isinstance(part, StyledLine) else str(part) for part in parts)
        if program != "tally":
            texts = (_HINTED.sub(program, each) for each in texts)
        stream.write("".join(f"{clean(text)}\n" for text in texts))
        stream.flush()
        return
    from rich.console import Console  # noqa: PLC0415 (heavy, and not for pipes)
    from rich.text import Text  # noqa: PLC0415

    # With forced colours in a pipe, every value is whole there too.
    console = Console(file=stream, width=None if stream.isatty() else 100_000)
    for part in parts:
        if isinstance(part, Table):
            console.print(part)
        else:
            style = part.style if isinstance(part, StyledLine) else ""
            console.print(Text(clean(str(part)), style), soft_wrap=True)


def _wrap_message(part: str | StyledLine | Table) -> Iterator[str | StyledLine | Table]:
    if not isinstance(part, str):
        yield part
        return
    for line in part.split("\n"):
        indent = len(line) - len(line.lstrip()) + 2
        wrapped = [each.text for each in wrap_lines(line, indent=indent, whole_words=True)]
        yield from wrapped or [""]
