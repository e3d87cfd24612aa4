"""`tally rules`: what scores production traces as they come."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, EngineName, Json, Server, Workers, choose_where
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import (
    Table,
    clean_line,
    format_count,
    format_moment,
    format_money,
    format_percent,
    format_score,
    say,
)
from tallymark.traces.trace_query import read_moment

if TYPE_CHECKING:
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.resources import Resources
    from tallymark.service.rules import Backfill, BackfillPreview, Counts, Decided, Rule, RuleDay

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
RuleArgument = Annotated[
    str, typer.Argument(metavar="RULE", help="Name of the rule.", show_default=False)
]
NewArgument = Annotated[
    str,
    typer.Argument(
        metavar="RULE",
        help="Name of the rule, or a .yaml file that contains one.",
        show_default=False,
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Rule file (YAML).", show_default=False)
]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="Rule file (YAML), instead of options.")
]
_FLAGS: dict[str, Any] = {
    "scorer": Annotated[
        str | None,
        typer.Option("--scorer", "-s", help="Scorer: name, name(option=value) or file.py:name."),
    ],
    "rubric": Annotated[
        str | None, typer.Option("--rubric", help="Rubric by which a model judges; needs --judge.")
    ],
    "judge": Annotated[
        str | None, typer.Option("--judge", metavar="MODEL", help="Model that judges.")
    ],
    "formula": Annotated[
        str | None,
        typer.Option("--formula", help="Formula over cost, duration, tokens, errors and so on."),
    ],
    "filter": Annotated[
        str | None,
        typer.Option("--filter", help="Traces to score, such as: service:shop cost>0.01"),
    ],
    "rate": Annotated[
        float | None, typer.Option("--rate", help="Percentage of matching traces to score.")
    ],
    "cap_cost": Annotated[
        float | None,
        typer.Option("--cap-cost", help="Daily limit of the cost of judges, in US dollars."),
    ],
    "cap_count": Annotated[
        int | None, typer.Option("--cap-count", help="Daily limit of scored traces.")
    ],
    "quiet": Annotated[
        float | None,
        typer.Option("--idle", help="Seconds without new spans before a trace is scored."),
    ],
    "reserve": Annotated[
        float | None, typer.Option("--reserve", help="US dollars reserved for each trace.")
    ],
}
"""Options that define a rule."""
_COUNTS = ("SCORED", "FAILED", "FILTERED", "NOT SAMPLED", "OVER CAP", "WAITING", "SPENT")
_DAYS_SHOWN = 14


def _take_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Has a command take the flags that say a rule, and gives it what they say as `rule`."""

    @wraps(command)
    def take(**given: Any) -> None:
        said = {name: value for name in _FLAGS if (value := given.pop(name)) is not None}
        judge = {key: said.pop(key) for key in ("rubric", "judge") if key in said}
        if len(judge) == 1:
            hint = "give --rubric TEXT and --judge MODEL"
            raise InvalidInput("a judge needs a rubric and a model", hint=hint)
        if judge:
            said["judge"] = {"rubric": judge["rubric"], "model": judge["judge"]}
        command(rule=said, **given)

    by_name = inspect.Parameter.KEYWORD_ONLY
    flags = [
        inspect.Parameter(name, by_name, default=None, annotation=kind)
        for name, kind in _FLAGS.items()
    ]
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        parameters += flags if each.name == "rule" else [each.replace(kind=by_name)]
    take.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return take


def _print(record: Rule, as_json: bool, *lines: str) -> None:
    if as_json:
        print_json(msgspec.to_builtins(record))
    else:
        say(*lines)


@app.command()
@_take_flags
def add(
    name: NewArgument,
    rule: dict[str, Any],
    file: FileOption = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Create a rule that scores new traces while a server or worker runs."""
    if file is None and not rule and Path(name).suffix in (".yaml", ".yml"):
        name, file = "", Path(name)
    if file is not None and rule:
        raise InvalidInput(
            "a rule is a file or options, not both", hint="write everything into the file"
        )
    if file is None and not rule:
        raise InvalidInput(
            f"{name} has no scorer",
            hint="give --scorer, --rubric and --judge, --formula, or --file",
        )
    with open_resources(db, server) as tally:
        document = rule if file is None else _read_file(file, name, tally)
        made = tally.rules.add({**document, **({"name": name} if name else {})})
    lines = (
        f"{made.name} scores new traces from now on; to score stored traces too:",
        f"  tally rules backfill {made.name} --since 7d",
    )
    _print(made, as_json, *lines)


@app.command()
@_take_flags
def edit(
    name: RuleArgument,
    rule: dict[str, Any],
    file: FileOption = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Create a new version of a rule: options change it, a file replaces it."""
    if (file is None) == (not rule):
        raise InvalidInput("no change is given", hint="give options or --file, not both")
    with open_resources(db, server) as tally:
        before = tally.rules.get(name)
        if file is None:
            document = _change(before.definition, rule)
        else:
            document = _read_file(file, name, tally)
        changed = tally.rules.edit(name, document)
    if changed.version == before.version:
        line = f"nothing changed: {name} stays version {changed.version}"
    else:
        line = f"{name} is now version {changed.version}; existing scores stay"
    _print(changed, as_json, line)


def _read_file(file: Path, name: str, tally: Resources) -> dict[str, Any]:
    """Read a rule file here, so that its mistakes have lines and columns."""
    from tallymark.service.rule_definitions import read_rule, refuse_other_name, write_rule  # noqa: PLC0415 (loads SQLAlchemy)

    named, definition = read_rule(file, folder=None if tally.is_remote else file.absolute().parent)
    refuse_other_name(named, name)
    return write_rule(definition) | ({"name": named} if named else {})


def _change(said: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    from tallymark.service.rule_definitions import WAYS  # noqa: PLC0415 (loads SQLAlchemy)

    if any(way in given for way in WAYS):
        said = {key: value for key, value in said.items() if key not in (*WAYS, "undefined")}
    return {**said, **given}


@app.command("list")
def list_rules(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List rules with their counts and costs."""
    with open_resources(db, server) as tally:
        found = list(tally.rules.list())
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    if not found:
        say(
            "no rules; make one: tally rules add polite --scorer 'contains(values=[\"sorry\"])'",
            wrap=True,
        )
        return
    rows = [
        [each.name, each.state, str(each.version), *_write_counts(each.counts, each.spent)]
        for each in found
    ]
    heads = ["RULE", "STATE", "VERSION", *_COUNTS]
    say(Table(heads, rows, right=heads[2:], drop=("VERSION", *reversed(_COUNTS))))
    for each in found:
        if each.trouble is not None:
            say(f"{each.name} cannot score now: {clean_line(each.trouble)}", wrap=True)


@app.command()
def show(name: RuleArgument, db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """Show a rule with its counts by day, versions and backfills."""
    with open_resources(db, server) as tally:
        rule = tally.rules.get(name)
    if as_json:
        print_json(msgspec.to_builtins(rule))
        return
    _say_rule(rule)
    if rule.days:
        say("")
        rows = [[each.day, *_write_counts(each, each.spent)] for each in rule.days[:_DAYS_SHOWN]]
        heads = ["DAY (UTC)", *(name for name in _COUNTS if name != "WAITING")]
        say(Table(heads, rows, right=heads[1:], drop=heads[:0:-1]))
    if len(rule.versions) > 1:
        say("", "versions")
        for version in rule.versions:
            author = clean_line(version.author)
            say(f"  {version.number}  {format_moment(version.at)}  by {author}")
    for backfill in rule.backfills[:5]:
        say(_describe_backfill(backfill))


def _write_counts(counts: Counts | RuleDay, spent: float) -> list[str]:
    names = ("scored", "failed", "filtered", "not_drawn", "capped", "waiting")
    found = [f"{getattr(counts, name):,}" for name in names if hasattr(counts, name)]
    return [*found, format_money(spent)]


def _say_rule(rule: Rule) -> None:
    say(f"{rule.name}  version {rule.version}, {rule.state}, by {clean_line(rule.owner)}")
    for key, value in rule.definition.items():
        say(f"  {key}: {clean_line(str(value))}")
    if rule.trouble is not None:
        again = "" if rule.again_at is None else f"; next try at {format_moment(rule.again_at)}"
        say(f"it cannot score now: {clean_line(rule.trouble)}{again}")


@app.command()
def pause(name: RuleArgument, db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """Pause a rule until it is resumed."""
    with open_resources(db, server) as tally:
        rule = tally.rules.pause(name)
    _print(rule, as_json, f"{name} is paused; traces that arrive meanwhile can be backfilled")


@app.command()
def resume(name: RuleArgument, db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """Resume a paused rule; waiting traces are scored first."""
    with open_resources(db, server) as tally:
        rule = tally.rules.resume(name)
    _print(rule, as_json, f"{name} is resumed")


@app.command()
def delete(name: RuleArgument, db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """Archive a rule: its scores and decisions stay, and its name can be reused."""
    with open_resources(db, server) as tally:
        rule = tally.rules.archive(name)
    _print(rule, as_json, f"{name} is archived; its scores stay")


@app.command()
def decisions(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: RuleArgument,
    decision: Annotated[
        str | None,
        typer.Option("--decision", "-d", help="Only traces with this outcome."),
    ] = None,
    trace: Annotated[str | None, typer.Option("--trace", help="Only of this trace.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most N.")
    ] = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List a rule's outcomes per trace with reasons, newest first."""
    with open_resources(db, server) as tally:
        found = tally.rules.decisions(name, cast("Decided | None", decision), trace, limit).items
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    rows = [
        [
            format_moment(each.at),
            each.trace,
            str(each.trace_version),
            str(each.rule_version),
            each.decision.replace("_", " "),
            "" if each.cost is None else format_money(each.cost),
            clean_line(each.reason),
        ]
        for each in found
    ]
    heads = ["AT (UTC)", "TRACE", "VERSION", "RULE VERSION", "DECISION", "COST", "WHY"]
    right = ("VERSION", "RULE VERSION", "COST")
    drop = ("RULE VERSION", "VERSION", "COST", "AT (UTC)")
    say(Table(heads, rows, right, wrap=("WHY",), drop=drop) if rows else "no such decision yet")


@app.command()
def backfill(  # noqa: PLR0913, PLR0917 (a span, and how to ask)
    name: RuleArgument,
    since: Annotated[
        str, typer.Option("--since", help="Start of the period: 7d, 2h or 2026-01-31.")
    ],
    until: Annotated[
        str, typer.Option("--until", help="End of the period, like --since. Default: now.")
    ] = "0s",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would score, and score nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    engine: EngineName = None,
    workers: Workers = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Score stored traces of a period; shows the number and the cost first."""
    now = time.time()
    span = (read_moment(since, now=now), read_moment(until, now=now))
    with open_resources(db, server) as tally:
        choice = choose_where(engine, workers, is_remote=tally.is_remote)
        unended = _find_unended(tally, name)
        made = None
        if unended is not None and choice is not None and not dry_run:
            # Begun by a command that died, or waiting for a worker.
            say(f"tally: backfill {unended.id} has not ended and is continued", err=True)
            made = _do_backfill(tally, choice, name, unended)
            unended = _find_unended(tally, name)
        preview = tally.rules.preview_backfill(name, *span)
        if not as_json:
            _say_preview(name, preview)
            if unended is not None and made is None:
                say(f"  {_describe_backfill(unended)}")
        if not dry_run and preview.to_score:
            if as_json and not yes:
                raise InvalidInput("a backfill needs a confirmation", hint="add --yes or --dry-run")
            if yes or typer.confirm("Score them?", err=True):
                made = tally.rules.backfill(name, *span).backfill
                if choice is not None and made is not None:
                    made = _do_backfill(tally, choice, name, made)
    if as_json:
        print_json(msgspec.to_builtins({"preview": preview, "backfill": made}))
    elif made is not None and choice is not None:
        say(_describe_backfill(made))
    elif made is not None:
        say(f"queued: workers of tally serve or tally worker do it (job {made.job})")
        say(f"  tally rules show {name}")


def _find_unended(tally: Resources, name: str) -> Backfill | None:
    return next((each for each in tally.rules.backfills(name) if each.state == "running"), None)


def _do_backfill(tally: Resources, choice: EngineChoice, name: str, asked: Backfill) -> Backfill:
    """Run the queued backfills of this store, and return the requested one."""
    from tallymark.service.rule_blocks import do_backfills  # noqa: PLC0415 (loads SQLAlchemy)

    do_backfills(tally.rules.services.app, choice, asked.job)
    return tally.rules.get_backfill(name, asked.id)


def _say_preview(name: str, said: BackfillPreview) -> None:
    say(
        f"{name}: {format_count(said.to_score, 'trace')} of {said.traces:,} between"
        f" {format_moment(said.since)} and {format_moment(said.until)} UTC",
        wrap=True,
    )
    left = {
        "do not meet the filter": said.filtered,
        "are not sampled": said.not_drawn,
        "were decided already": said.decided,
    }
    for why, count in left.items():
        if count:
            say(f"  {count:,} {why}")
    about = "" if not said.cost else f"about {format_money(said.cost)}, estimated by "
    say(
        f"  cost: {about or ('unknown, ' if said.cost is None else 'none, ')}{said.cost_by}",
        wrap=True,
    )
    if said.left_count is not None:
        say(f"  today's cap leaves room for {format_count(said.left_count, 'trace')}")
    if said.left_cost is not None:
        say(f"  today's cap leaves {format_money(said.left_cost)}")


def _describe_backfill(each: Backfill) -> str:
    done = each.scored + each.failed
    more = f", {each.capped:,} capped" if each.capped else ""
    return (
        f"backfill {each.id}: {each.state}, {format_percent(100 * each.progress)},"
        f" {done:,} of {each.expected:,} scored{more}, {format_money(each.spent)}"
    )


@app.command()
def check(file: FileArgument, db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """Try a rule on the newest stored traces; nothing is stored and no model is called."""
    with open_resources(db, server) as tally:
        trial = tally.rules.try_out(_read_file(file, "", tally))
    if as_json:
        print_json(msgspec.to_builtins(trial))
        return
    say(f"{file} is a rule")
    if not trial.traces:
        say("no traces are stored here to try it on")
        return
    say(f"of the newest {format_count(trial.traces, 'trace')} it would score {trial.drawn:,}")
    if trial.asks:
        say("it calls a model, so it was not tried")
    for trace, score in trial.scores.items():
        error = score.get("error")
        what = format_score(score.get("value")) if error is None else "failed"
        say(f"  {trace}  {what}  {clean_line(error or score.get('reason') or '', 80)}".rstrip())
