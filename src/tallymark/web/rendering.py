"""Jinja environment of the pages, and its filters.

Every value in a page is escaped and stripped of control and bidirectional characters, because
names, answers and traces are not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import jinja2
from jinja2.ext import Extension
from jinja2.runtime import Context
from markupsafe import Markup, escape

from tallymark import text
from tallymark.charts.frame import Chart, pct
from tallymark.runs.problems import name_model
from tallymark.runs.reports.html_page import unindent
from tallymark.runs.run import read_notes
from tallymark.web.assets import Assets
from tallymark.web.markdown import render_markdown
from tallymark.web.run_facts import (
    draw_history,
    explain_result,
    find_unrun,
    judge_suite,
    list_checks,
    list_labels,
)

if TYPE_CHECKING:
    from tallymark.web.board_rows import DimensionShare

_COLOURS = ("emerald", "gold", "coral", "purple", "sky", "teal", "indigo", "rose")
"""Colours of dimensions; any other is drawn in grey."""
_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (30 * 86_400, 86_400, "d"))


class _Unindent(Extension):
    def preprocess(self, source: str, *_: object) -> str:
        return unindent(source)


class Renderer:
    """Renders the templates of the pages."""

    def __init__(self, assets: Assets) -> None:
        self._jinja = jinja2.Environment(
            loader=jinja2.PackageLoader("tallymark.web", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            finalize=_clean,
            extensions=[_Unindent],
            auto_reload=False,
        )
        self._jinja.filters |= _FILTERS
        self._jinja.globals |= {"asset": assets.find_path, "length": _write_length, "zip": zip}
        # Our own style sheet, without user text.
        style = Markup(assets.by_name["site.css"].content.decode())  # noqa: S704
        self._jinja.globals["stylesheet"] = lambda: style

    def render(self, template: str, **values: Any) -> str:
        """Render a page or a part of one."""
        return self._jinja.get_template(template).render(**values)


def _clean(value: Any) -> Any:
    """Strip control characters from a value; None is empty."""
    if value is None:
        return ""
    return text.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _cut(value: str, most: int = 160) -> str:
    return text.clean_line(value, most)


def _excerpt(value: str, most: int = 20_000) -> str:
    return text.clean_excerpt(value, most)


def format_age(seconds: float) -> str:
    """Format a time difference in the largest unit that fits."""
    size = abs(seconds)
    if size < 5:
        return "now"
    for most, unit, name in _STEPS:
        if size < most:
            told = f"{int(size // unit)} {name}"
            return f"{told} ago" if seconds > 0 else f"in {told}"
    return ""


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units: `2 d 4 h`, `12 min`, `40 s`."""
    left, found = int(seconds), []
    for size, name in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count:
            found.append(f"{count} {name}")
    return " ".join(found[:2]) or "0 s"


@jinja2.pass_context
def _show_moment(context: Context, at: float | None) -> Markup | str:
    """Format a time as its age, with the exact time on hover."""
    if not at:
        return text.UNKNOWN
    moment = datetime.fromtimestamp(at, UTC)
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    age = format_age(context["request"].now - at)
    # Script updates ages while the page is open.
    grows = " data-age" if age else ""
    # Only our own digits and words, so no escaping is needed.
    return Markup(  # noqa: S704
        f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}"{grows} data-tip="{exact}" title="{exact}">'
        f"{age or f'{moment:%Y-%m-%d}'}</time>"
    )


def _sign(shown: str, value: float | None) -> str:
    """Format a difference with its sign."""
    if value is None:
        return shown
    if not any(digit in shown for digit in "123456789"):
        return shown.removeprefix("-")  # what is nothing when rounded has no sign
    return f"+{shown}" if value > 0 else _write_minus(shown)


def _write_result(value: float) -> str:
    """Format an attempt's score: whole numbers as they are, others with two decimals."""
    return text.format_digits(value) if float(value).is_integer() else text.format_score(value)


def write_sentence(shown: str) -> str:
    """Write a message as a sentence, with a capital and a full stop.

    An id, a file or a command at the beginning is no word, and stays as it is typed.
    """
    first = shown.partition(" ")[0].rstrip(",;:.?!")
    start = shown[:1].upper() if first.isalpha() and first != "tally" else shown[:1]
    return f"{start}{shown[1:]}{'' if shown.endswith(('.', '?', '!')) else '.'}"


def _write_command(command: str) -> Markup:
    """Mark up a command so that lines do not break inside options."""
    option = Markup('<span class="nowrap">{}</span>')
    words = text.clean(command).split(" ")
    return Markup(" ").join(option.format(each) if each[:1] == "-" else each for each in words)


def _write_minus(shown: str) -> str:
    """Replace hyphens by minus signs."""
    return shown.replace("-", text.MINUS)


def _write_length(share: float) -> str:
    """Format a length in percent for SVG; the CSP allows no style attributes."""
    return pct(min(max(share, 0.0), 1.0))


def _name_colour(colour: str) -> str:
    """Return the CSS class of a dimension's colour."""
    return colour.lower() if colour.lower() in _COLOURS else "plain"


def _draw_dimensions(parts: Iterable[DimensionShare], kind: str = "bar") -> Markup:
    """Draw the share of each dimension in a bar. Not a macro: a board has hundreds of them."""
    at, drawn, told = 0.0, [], []
    for each in parts:
        share, again = each.weighted / 1000, " again" if each.again else ""
        drawn.append(
            f'<rect class="{_name_colour(each.color)}{again}" x="{_write_length(at)}"'
            f' width="{_write_length(share)}"/>'
        )
        told.append(f"{_cut(each.label, 40)} {each.weighted:.1f}")
        at += share
    label, rects = escape(", ".join(told)), "".join(drawn)
    return Markup(f'<svg class="{kind}" role="img" aria-label="{label}">{rects}</svg>')  # noqa: S704


def _draw(chart: Chart) -> Markup:
    """Draw a chart, which escapes its own values."""
    return Markup(chart.write_html())  # noqa: S704


def _draw_alone(chart: Chart) -> Markup:
    """Draw a chart without its table, in a row that shows the numbers."""
    return Markup(chart.svg)  # noqa: S704


@cache
def _quote_path(name: str) -> str:
    """Quote a name as one segment of a path."""
    return quote(name, safe="")


def _join_some(items: Iterable[str], most: int = 8) -> str:
    return text.list_some([text.clean_line(each, 60) for each in items], most=most)


def _join_url(params: Mapping[str, str]) -> str:
    return "&".join(f"{_quote_path(key)}={_quote_path(value)}" for key, value in params.items())


_FILTERS: dict[str, Callable[..., Any]] = {
    "model": name_model,
    "unrun": find_unrun,
    "labels": list_labels,
    "notes": read_notes,
    "why": explain_result,
    "checks": lambda result: list(list_checks(result.checks)),
    "tone": judge_suite,
    "sparkline": draw_history,
    "score": text.with_minus(text.format_score),
    "mean": text.with_minus(text.format_mean),
    "value": text.with_minus(text.format_value),
    "digits": text.with_minus(text.format_digits),
    "result": _write_result,
    "number": text.with_minus(text.format_number),
    "rating": text.with_minus(text.format_rating),
    "money": text.with_minus(text.format_money),
    "seconds": text.with_minus(text.format_seconds),
    "measure": text.with_minus(text.format_measure),
    "percent": text.with_minus(text.format_percent),
    "points": text.with_minus(text.format_points),
    "share": text.format_share,
    "p_value": text.format_p_value,
    "counted": text.format_count,
    "utc": text.format_utc_moment,
    "age": format_age,
    "duration": format_duration,
    "ago": _show_moment,
    "signed": _sign,
    "minus": _write_minus,
    "command": _write_command,
    "cut": _cut,
    "excerpt": _excerpt,
    "some": _join_some,
    "colour": _name_colour,
    "dimensions": _draw_dimensions,
    "draw": _draw,
    "draw_alone": _draw_alone,
    "path": _quote_path,
    "query": _join_url,
    "markdown": render_markdown,
    "sentence": write_sentence,
}
