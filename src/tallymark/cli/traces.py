"""`tally traces`: stored traces of agents in production."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, Json, Server, float_option
from tallymark.cli.session import open_resources
from tallymark.cli.streams import check_new_file, print_json, write_new_file
from tallymark.errors import InvalidInput
from tallymark.text import (
    Table,
    clean_line,
    format_count,
    format_moment,
    format_money,
    format_number,
    format_score,
    format_seconds,
    format_utc_moment,
    say,
)
from tallymark.traces.call_price import describe_cost_source
from tallymark.traces.trace import Trace
from tallymark.traces.trace_query import PEOPLE, SCORE

if TYPE_CHECKING:
    from tallymark.service.traces import TraceItem, TraceScore
    from tallymark.traces.trace_facts import TraceSum

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
FilterArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILTER...",
        help="Filter, such as: status:error tool:search 'cost>0.01' since:2h",
        show_default=False,
    ),
]
TraceArgument = Annotated[
    str, typer.Argument(metavar="TRACE", help="Id of the trace.", show_default=False)
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most N.")]
_MEASURES = "Value to average: cost, duration, tokens, error, score.NAME or people.NAME."
MeasureOption = Annotated[str, typer.Option("--measure", help=_MEASURES)]
_WIDE = 0.05
"""An interval of scores whose ends need no more than two decimals."""
_NOTHING = "no trace matches; list all: tally traces list"
_EMPTY = "no traces; send some to tally serve, or: tally load traces FILE"


def _join(words: list[str] | None) -> str:
    return " ".join(words or ())


@app.command("list")
def list_(
    filters: FilterArgument = None,
    limit: LimitOption = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List traces, newest first."""
    _list(_join(filters), limit, (db, server), as_json)


@app.command()
def search(
    text: Annotated[str, typer.Argument(help="Text to find in a span.", show_default=False)],
    filters: FilterArgument = None,
    limit: LimitOption = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Search the spans of all matching traces for a text."""
    if '"' in text:
        raise InvalidInput("the text to find cannot contain a double quote", hint="leave it out")
    _list(f'text:"{text}" {_join(filters)}', limit, (db, server), as_json)


def _list(text: str, limit: int, where: tuple[str | None, str | None], as_json: bool) -> None:
    with open_resources(*where) as tally:
        page = tally.traces.list(text, limit)
        items, scanned = page.items, page.scanned
        # Pages of conditions without an index may be short.
        while scanned is not None and page.next is not None and len(items) < limit:
            page = tally.traces.list(text, limit - len(items), page.next)
            items = [*items, *page.items]
            scanned += page.scanned or 0
    more = page.next is not None
    if as_json:
        _print({"traces": items, "more": more, "scanned": scanned})
        return
    if items:
        say(_make_table(items))
    elif more:
        say("none found so far; search further back with until:", wrap=True)
    else:
        say(_NOTHING if text.strip() else _EMPTY, wrap=True)
    if more and items:
        say("there are more; use --limit or a narrower filter", err=True)
    if scanned is not None:
        looked = format_count(scanned, "trace")
        say(f"{looked} scanned one by one, because no index covers this filter", err=True)


@app.command()
def show(
    trace: TraceArgument,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the trace. Default: the latest.")
    ] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show a trace with its spans and scores."""
    with open_resources(db, server) as tally:
        found = tally.traces.get(trace, version)
    if as_json:
        _print({"trace": found})
        return
    spans = Trace.from_dict(found.trace)
    say(*_write_facts(found, describe_cost_source(spans.cost_source)), "")
    say(_make_span_table(spans))
    if found.scores:
        say("", _make_score_table(found.scores))


@app.command()
def sums(  # noqa: PLR0913, PLR0917 (the options of a command)
    filters: FilterArgument = None,
    by: Annotated[
        str | None,
        typer.Option(help="Group by model, tool, version, service, name, session, user or tag."),
    ] = None,
    every: Annotated[str | None, typer.Option(help="Group by minute, hour, day or week.")] = None,
    measure: Annotated[
        str | None,
        typer.Option("--measure", help=_MEASURES),
    ] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show totals and means of traces: overall, by group, or over time."""
    if by is not None and every is not None:
        raise InvalidInput("--by and --every exclude each other", hint="leave one out")
    text = _join(filters)
    with open_resources(db, server) as tally:
        found = tally.traces.sums(text, by, every, measure)
    if as_json:
        _print(found)
        return
    head = (by or ("from (utc)" if every else "all")).upper()
    say(_make_sum_table(head, found.items or [found.whole], measure, moments=bool(every)))


@app.command()
def compare(
    first: Annotated[
        str, typer.Argument(metavar="FIRST", help="First filter, in quotes.", show_default=False)
    ],
    second: Annotated[
        str, typer.Argument(metavar="SECOND", help="Second filter, in quotes.", show_default=False)
    ],
    measure: MeasureOption,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Compare two filters by one measure, such as 'version:1.2' with 'version:1.3'."""
    with open_resources(db, server) as tally:
        found = tally.traces.compare(first, second, measure)
    if as_json:
        _print({"comparison": found})
        return
    rows = [
        (
            each.filter or "all",
            f"{each.traces:,}",
            f"{each.sessions:,}",
            _write_estimate(measure, each.mean, each.low, each.high),
        )
        for each in (found.first, found.second)
    ]
    say(Table(("FILTER", "TRACES", "SESSIONS", f"MEAN {measure.upper()}"), rows, wrap=("FILTER",)))
    between = _write_estimate(measure, found.difference, found.low, found.high, signed=True)
    say("", f"second minus first: {between}; {found.verdict}", wrap=True)


@app.command()
def worst(  # noqa: PLR0913, PLR0917 (the options of a command)
    score: Annotated[
        str,
        typer.Argument(
            help="Score of a rule, or people.NAME for scores given by people.", show_default=False
        ),
    ],
    filters: FilterArgument = None,
    limit: LimitOption = 100,
    best: Annotated[bool, typer.Option("--best", help="List the highest scores instead.")] = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the traces with the lowest scores."""
    with open_resources(db, server) as tally:
        found = tally.traces.worst(score, _join(filters), limit, best=best).items
    if as_json:
        _print({"traces": found})
    elif found:
        rows = [
            (
                format_score(each.value),
                each.trace.id,
                format_moment(each.trace.started_at),
                clean_line(each.trace.asked or each.trace.name, 60),
            )
            for each in found
        ]
        heads = (score.upper(), "TRACE", "STARTED (UTC)", "ASKED")
        say(Table(heads, rows, right=(heads[0],), wrap=("ASKED",), drop=(heads[2], "ASKED")))
    else:
        rules = (
            "" if score.startswith((PEOPLE, SCORE)) else f" by a rule; by people: people.{score}"
        )
        say(f"no trace that fits has the score {score}{rules}", wrap=True)


@app.command()
def session(
    name: Annotated[str, typer.Argument(metavar="SESSION", show_default=False)],
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show the traces of a session."""
    with open_resources(db, server) as tally:
        found = tally.traces.session(name)
    if as_json:
        _print({"session": found})
        return
    say(_make_table(found.traces), "")
    parts = [format_count(found.sums.traces, "trace"), format_count(found.sums.errors, "error")]
    parts += [format_money(found.sums.cost)] if found.sums.cost is not None else []
    parts += [f"{each} {format_score(sums.mean)}" for each, sums in found.scores.items()]
    say(", ".join(parts), wrap=True)
    if found.more:
        say(f"only the first {len(found.traces):,} are listed", err=True)


@app.command()
def score(  # noqa: PLR0913, PLR0917 (the options of a command)
    trace: TraceArgument,
    name: Annotated[str, typer.Argument(help="Name of the score.", show_default=False)],
    value: Annotated[float, typer.Argument(help="Value from 0 to 1.", show_default=False)],
    reason: Annotated[str | None, typer.Option(help="Reason for the score.")] = None,
    expected: Annotated[
        str | None,
        typer.Option(help="Expected answer, which to-suite uses."),
    ] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Score a trace yourself; a second score replaces the first."""
    with open_resources(db, server) as tally:
        given = tally.traces.score(trace, name, value, reason=reason, expected=expected)
    if as_json:
        _print({"score": given})
    else:
        say(f"{name} of {trace} is {format_score(given.value)}")


@app.command("to-suite")
def to_suite(  # noqa: PLR0913, PLR0917 (the options of a command)
    filters: FilterArgument = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Suite file to write. Default: NAME.suite.yaml."),
    ] = None,
    trace: Annotated[
        list[str] | None, typer.Option("--trace", help="Only this trace. Repeatable.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the suite.")] = "from-production",
    scorer: Annotated[
        list[str] | None, typer.Option("--scorer", help="Scorer of the cases. Repeatable.")
    ] = None,
    limit: LimitOption = 100,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Write a suite whose cases repeat the inputs of these traces."""
    path = output or Path(f"{name}.suite.yaml")
    check_new_file(path, force=force)
    with open_resources(db, server) as tally:
        made = tally.traces.make_suite(_join(filters), trace, name, scorer or (), limit)
    cases = made.cases
    for each in () if as_json else made.left_out:
        say(f"left out: {each.trace}: {each.reason}", err=True)
    if not cases:
        raise InvalidInput("no matching trace records its input")
    write_new_file(path, made.suite)
    if as_json:
        _print({"suite": str(path), "cases": cases, "left_out": made.left_out})
    else:
        say(
            f"wrote {path}: {format_count(cases, 'case')}; run it with: tally run {path}", wrap=True
        )
        if made.unchecked:
            bare = f"{made.unchecked:,} of them check nothing"
            say(f"{bare}, as no expected answer is known: add checks", wrap=True)


@app.command()
def settings(  # noqa: PLR0913, PLR0917 (the options of a command)
    idle: Annotated[
        float | None,
        typer.Option(help="Seconds without new spans after which a trace is complete."),
    ] = None,
    keep_days: Annotated[
        float | None, float_option(min=0, help="Remove traces after N days; 0 keeps them forever.")
    ] = None,
    keep_mb: Annotated[
        int | None,
        typer.Option(min=0, help="Remove the oldest traces beyond this size; 0 keeps all."),
    ] = None,
    redact_attribute: Annotated[
        list[str] | None,
        typer.Option(
            help="Do not store values of attributes with this name (* and ? match). Repeatable."
        ),
    ] = None,
    redact_pattern: Annotated[
        list[str] | None,
        typer.Option(help="Do not store text that matches this regular expression. Repeatable."),
    ] = None,
    no_redaction: Annotated[
        bool, typer.Option("--no-redaction", help="Store everything from now on.")
    ] = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show or change retention and redaction of traces. Redaction applies to new traces."""
    changes: dict[str, Any] = {} if idle is None else {"quiet_s": idle}
    changes |= {} if keep_days is None else {"keep_days": keep_days or None}
    changes |= {} if keep_mb is None else {"keep_mb": keep_mb or None}
    if no_redaction:
        changes |= {"redact_attributes": [], "redact_patterns": []}
    changes |= {"redact_attributes": redact_attribute} if redact_attribute else {}
    changes |= {"redact_patterns": redact_pattern} if redact_pattern else {}
    with open_resources(db, server) as tally:
        traces = tally.traces
        found = traces.change_settings(**changes) if changes else traces.settings()
    if as_json:
        _print({"settings": found})
        return
    days = "for ever" if found.keep_days is None else f"for {format_number(found.keep_days)} days"
    size = "" if found.keep_mb is None else f", at most {found.keep_mb:,} MB"
    say(
        f"kept {days}{size}; settled after {format_number(found.quiet_s)} s without spans",
        wrap=True,
    )
    for rule in (*found.redact_attributes, *found.redact_patterns):
        say(f"not stored: {rule}")


def _print(records: Any) -> None:

    print_json(msgspec.to_builtins(records))


def _make_table(found: list[TraceItem]) -> Table:
    scored = any(each.scores for each in found)
    heads = ["TRACE", "STARTED (UTC)", "NAME", "STATUS", "TOOK", "TOKENS", "COST", "ASKED"]
    rows = []
    for each in found:
        row = [
            each.id,
            format_moment(each.started_at),
            clean_line(each.name, 40),
            each.status,
            format_seconds(each.duration),
            "-" if each.tokens is None else f"{each.tokens:,}",
            "-" if each.cost is None else format_money(each.cost),
            clean_line(each.asked or "", 60),
        ]
        if scored:
            row.insert(-1, _write_scores(each.scores))
        rows.append(tuple(row))
    if scored:
        heads.insert(-1, "SCORES")
    drop = ("TOKENS", "COST", "TOOK", "NAME", "STATUS", *heads[8:9], "STARTED (UTC)", "ASKED")
    right = ("TOOK", "TOKENS", "COST")
    return Table(
        tuple(heads), rows, right=right, wrap=("SCORES", "ASKED"), cut=("NAME",), drop=drop
    )


def _write_scores(scores: list[TraceScore]) -> str:
    return ", ".join(
        f"{each.name} {format_score(each.value)}{' by people' if each.author else ''}"
        for each in scores
        if each.value is not None
    )


def _write_status(record: TraceItem) -> str:
    if record.error is None:
        return record.status
    if record.status == "error":
        return f"error: {record.error}"
    return f"{record.status}, though {format_count(record.errors, 'span')} failed: {record.error}"


def _write_facts(record: TraceItem, cost_source: str) -> list[str]:
    told = [
        ("name", record.name),
        ("status", _write_status(record)),
        ("started", format_utc_moment(record.started_at)),
        ("took", format_seconds(record.duration)),
        ("service", " ".join(filter(None, (record.service, record.service_version)))),
        ("session", record.session),
        ("user", record.user),
        ("models", ", ".join(record.models)),
        ("tools", ", ".join(record.tools)),
        ("tags", ", ".join(record.tags)),
        ("tokens", None if record.tokens is None else f"{record.tokens:,}"),
        ("cost", None if record.cost is None else f"{format_money(record.cost)}, {cost_source}"),
        ("asked", record.asked),
        ("answered", record.answered),
        ("version", str(record.version) if record.state == "settled" else "still open"),
        ("lost", None if record.lost is None else record.lost.describe()),
    ]
    shown = [f"{name:<9} {clean_line(value, 400)}" for name, value in told if value]
    return [record.id, *shown]


def _make_span_table(trace: Trace) -> Table:
    rows = [
        (
            "  " * min(depth, 20) + clean_line(span.tool_name or span.name or "-", 60),
            span.span_type,
            format_seconds(span.duration_ms / 1000),
            "-" if span.tokens is None else f"{span.tokens:,}",
            clean_line(span.error or span.output or span.input, 80),
        )
        for depth, span in trace.walk()
    ]
    heads = ("SPAN", "KIND", "TOOK", "TOKENS", "OUTPUT")
    return Table(heads, rows, right=("TOOK", "TOKENS"), wrap=("OUTPUT",), drop=("TOKENS", "KIND"))


def _make_score_table(scores: list[TraceScore]) -> Table:
    rows = [
        (
            each.name,
            "-" if each.value is None else format_score(each.value),
            each.author or "rule",
            str(each.version),
            "" if each.is_current else "replaced",
            clean_line(each.error or each.reason or "", 80),
        )
        for each in scores
    ]
    heads = ("SCORE", "VALUE", "BY", "VERSION", "", "REASON")
    return Table(heads, rows, right=("VALUE", "VERSION"), wrap=("REASON",), drop=("VERSION", "BY"))


def _make_sum_table(
    head: str, found: list[TraceSum], measure: str | None, *, moments: bool
) -> Table:
    heads = [head, "TRACES", "ERRORS", "MEAN TIME", "TOKENS", "COST"]
    rows = []
    for each in found:
        group = "-" if each.group is None else str(each.group)
        if moments:
            group = format_moment(float(each.group or 0.0))
        row = [
            clean_line(group, 60) if head != "ALL" else "",
            f"{each.traces:,}",
            f"{each.errors:,}",
            format_seconds(each.duration),
            "-" if each.tokens is None else f"{each.tokens:,}",
            "-" if each.cost is None else format_money(each.cost),
        ]
        if measure is not None:
            row.append(_write_estimate(measure, each.mean, each.low, each.high))
        rows.append(tuple(row))
    if measure is not None:
        heads.append(f"MEAN {measure.upper()}")
    drop = ("TOKENS", "COST", "MEAN TIME", "ERRORS")
    return Table(tuple(heads), rows, right=tuple(heads[1:6]), drop=drop)


def _write_estimate(
    measure: str, mean: float | None, low: float | None, high: float | None, *, signed: bool = False
) -> str:
    """A mean with its interval, in the unit of what is measured."""
    write = {"cost": format_money, "duration": format_seconds}.get(measure, format_score)
    if mean is None:
        return "-"
    sign = "+" if signed and mean > 0 else ""
    if low is None or high is None:
        return f"{sign}{write(mean)}"
    if write is format_score and high - low > _WIDE:
        low, high = round(low, 2), round(high, 2)
    around = f" [{write(low)}, {write(high)}]"
    return f"{sign}{write(mean)}{around}"
