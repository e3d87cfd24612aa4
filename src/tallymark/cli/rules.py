"""`tally rules`: what scores production traces as they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db
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

if TYPE_CHECKING:
    from tallymark.app.rules import BackfillPreview, RuleReport, RuleService
    from tallymark.store.traces.backfills import Backfill
    from tallymark.store.traces.rule_days import RuleCounts, RuleDay

app = typer.Typer(no_args_is_help=True, help="Rules: score production traces as they come.")
RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="Its name.", show_default=False)]
NewArgument = Annotated[
    str,
    typer.Argument(
        metavar="RULE",
        help="Its name, or a file that has one and ends in .yaml.",
        show_default=False,
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A rule as YAML.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", help="The rule as YAML, instead of flags.")
]
ScorerOption = Annotated[
    str | None,
    typer.Option("--scorer", "-s", help="A scorer: name, name(option=value) or file.py:name."),
]
JudgeOption = Annotated[
    str | None, typer.Option("--judge", metavar="RUBRIC", help="A model judges by this rubric.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", metavar="MODEL", help="The model that judges.")
]
FormulaOption = Annotated[
    str | None, typer.Option("--formula", help="Over cost, duration, tokens, errors and so on.")
]
FilterOption = Annotated[
    str | None, typer.Option("--filter", help="Which traces, such as: service:shop cost>0.01")
]
RateOption = Annotated[
    float | None, typer.Option("--rate", help="Percent of those that meet the filter.")
]
CapCostOption = Annotated[
    float | None, typer.Option("--cap-cost", help="US dollars that judges may cost a day.")
]
CapCountOption = Annotated[
    int | None, typer.Option("--cap-count", help="Traces that are scored a day.")
]
QuietOption = Annotated[
    float | None, typer.Option("--quiet", help="Seconds without new spans before it scores.")
]
ReserveOption = Annotated[
    float | None, typer.Option("--reserve", help="US dollars set aside for each trace.")
]


_COUNTS = ("SCORED", "FAILED", "FILTERED", "NOT DRAWN", "CAPPED", "WAITING", "SPENT")
_DAYS_SHOWN = 14


@contextmanager
def _open(db: str | None) -> Iterator[RuleService]:
    from tallymark.app.app import App
    from tallymark.app.remote_suites import RemoteRules
    from tallymark.app.rules import RuleService

    with closing(App(db)) as opened:
        yield RuleService(opened.store, RemoteRules.from_environment(), own=True)


def _collect(judge: str | None, model: str | None, **flags: Any) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value is not None}
    if (judge is None) != (model is None):
        raise InvalidInput("a judge needs a rubric and a model", hint="give --judge and --model")
    if judge is not None:
        given["judge"] = {"rubric": judge, "model": model}
    return given


@app.command()
def add(  # noqa: PLR0913, PLR0917 (what a rule may say, as flags)
    name: NewArgument,
    file: FileOption = None,
    scorer: ScorerOption = None,
    judge: JudgeOption = None,
    model: ModelOption = None,
    formula: FormulaOption = None,
    filter_: FilterOption = None,
    rate: RateOption = None,
    cap_cost: CapCostOption = None,
    cap_count: CapCountOption = None,
    quiet: QuietOption = None,
    reserve: ReserveOption = None,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Make a rule: it scores what comes from now on, once a server or worker runs."""
    given = _collect(
        judge,
        model,
        scorer=scorer,
        formula=formula,
        filter=filter_,
        rate=rate,
        cap_cost=cap_cost,
        cap_count=cap_count,
        quiet=quiet,
        reserve=reserve,
    )
    if file is None and not given and Path(name).suffix in (".yaml", ".yml"):
        name, file = "", Path(name)
    if file is not None and given:
        raise InvalidInput("a rule is a file or flags, not both", hint="write all into the file")
    if file is None and not given:
        raise InvalidInput(
            f"nothing says how {name} scores",
            hint="give --scorer, --judge and --model, --formula, or --file",
        )
    with _open(db) as rules:
        made = rules.add(given if file is None else file, name=name)
    if as_json:
        print_json(made.to_dict())
    else:
        called = made.rule.name
        say(f"{called} scores what comes from now on; what is kept already:")
        say(f"  tally rules backfill {called} --since 7d")


@app.command()
def edit(  # noqa: PLR0913, PLR0917 (as above)
    name: RuleArgument,
    file: FileOption = None,
    scorer: ScorerOption = None,
    judge: JudgeOption = None,
    model: ModelOption = None,
    formula: FormulaOption = None,
    filter_: FilterOption = None,
    rate: RateOption = None,
    cap_cost: CapCostOption = None,
    cap_count: CapCountOption = None,
    quiet: QuietOption = None,
    reserve: ReserveOption = None,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Make a new version of a rule: flags change what it says, a file replaces it."""
    given = _collect(
        judge,
        model,
        scorer=scorer,
        formula=formula,
        filter=filter_,
        rate=rate,
        cap_cost=cap_cost,
        cap_count=cap_count,
        quiet=quiet,
        reserve=reserve,
    )
    if (file is None) == (not given):
        raise InvalidInput("a version is a file or flags", hint="say what changes, or give --file")
    with _open(db) as rules:
        before = rules.get(name)
        changed = rules.edit(name, _change(before, given) if file is None else file)
    if as_json:
        print_json(changed.to_dict())
    elif changed.rule.version == before.rule.version:
        say(f"{name} says that already: it stays version {changed.rule.version}")
    else:
        say(f"{name} is version {changed.rule.version} now; what others scored stays")


def _change(report: RuleReport, given: dict[str, Any]) -> dict[str, Any]:
    from tallymark.app.rule_definitions import WAYS

    said = report.to_dict()["definition"]
    if any(way in given for way in WAYS):
        said = {key: value for key, value in said.items() if key not in (*WAYS, "undefined")}
    return {**said, **given}


@app.command("list")
def list_rules(db: Db = None, as_json: JsonOption = False) -> None:
    """List rules with what they decided and spent."""
    with _open(db) as rules:
        found = rules.list() if rules.store.exists else []
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    if not found:
        say("no rules; make one: tally rules add polite --scorer 'contains(values=[\"sorry\"])'")
        return
    rows = [
        [each.rule.name, each.rule.state, str(each.rule.version), *_write_counts(each.counts)]
        for each in found
    ]
    heads = ["RULE", "STATE", "VERSION", *_COUNTS]
    say(Table(heads, rows, right=heads[2:], wrap=("RULE",)))
    for each in found:
        if each.trouble is not None:
            say(f"{each.rule.name} cannot score now: {clean_line(each.trouble)}")


@app.command()
def show(name: RuleArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Show a rule: what it says, what it decided, its days, versions and backfills."""
    from tallymark.app.rules import describe_backfill, describe_version

    with _open(db) as rules:
        report = rules.get(name)
        versions, backfills = rules.versions(name), rules.backfills(name)
        days = rules.spending(name)
    if as_json:
        import msgspec

        told = report.to_dict()
        told["versions"] = [describe_version(each) for each in versions]
        told["backfills"] = [describe_backfill(each) for each in backfills]
        told["days"] = msgspec.to_builtins(days)
        print_json(told)
        return
    _say_rule(report)
    if days:
        say("")
        rows = [[each.day, *_write_counts(each)] for each in days[:_DAYS_SHOWN]]
        heads = ["DAY (UTC)", *(name for name in _COUNTS if name != "WAITING")]
        say(Table(heads, rows, right=heads[1:]))
    if len(versions) > 1:
        say("", "versions")
        for version in versions:
            author = clean_line(version.author)
            say(f"  {version.number}  {format_moment(version.at)}  by {author}")
    for backfill in backfills[:5]:
        say(_describe_backfill(backfill))


def _write_counts(counts: RuleCounts | RuleDay) -> list[str]:
    names = ("scored", "failed", "filtered", "not_drawn", "capped", "waiting")
    found = [f"{getattr(counts, name):,}" for name in names if hasattr(counts, name)]
    return [*found, format_money(counts.spent)]


def _say_rule(report: RuleReport) -> None:
    rule = report.rule
    say(f"{rule.name}  version {rule.version}, {rule.state}, by {clean_line(rule.owner)}")
    for key, value in report.to_dict()["definition"].items():
        say(f"  {key}: {clean_line(str(value))}")
    if report.trouble is not None:
        again = "" if rule.again_at is None else f"; again at {format_moment(rule.again_at)}"
        say(f"it cannot score now: {clean_line(report.trouble)}{again}")


@app.command()
def pause(name: RuleArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Neither look at traces nor score them until the rule is resumed."""
    with _open(db) as rules:
        report = rules.pause(name)
    if as_json:
        print_json(report.to_dict())
    else:
        say(f"{name} is paused; what comes meanwhile can be backfilled later")


@app.command()
def resume(name: RuleArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Go on with a paused rule, first with what still waits."""
    with _open(db) as rules:
        report = rules.resume(name)
    if as_json:
        print_json(report.to_dict())
    else:
        say(f"{name} scores again")


@app.command()
def delete(name: RuleArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """End a rule for good: its scores and decisions stay, and its name is free."""
    with _open(db) as rules:
        report = rules.archive(name)
    if as_json:
        print_json(report.to_dict())
    else:
        say(f"{name} scores no more; what it scored stays")


@app.command()
def decisions(
    name: RuleArgument,
    decision: Annotated[
        str | None,
        typer.Option("--decision", "-d", help="scored, failed, filtered, not_drawn, capped ..."),
    ] = None,
    trace: Annotated[str | None, typer.Option("--trace", help="Only of this trace.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000)] = 20,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """What a rule decided of traces and why, newest first."""
    with _open(db) as rules:
        found = rules.decisions(name, decision=decision, trace=trace, limit=limit)
    if as_json:
        import msgspec

        told = msgspec.to_builtins(found)
        print_json([{key: each[key] for key in each if key != "place"} for each in told])
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
    say(Table(heads, rows, right, wrap=("WHY",)) if rows else "nothing was decided so")


@app.command()
def backfill(  # noqa: PLR0913, PLR0917 (a span, and how to ask)
    name: RuleArgument,
    since: Annotated[str, typer.Option("--since", help="7d, 2h, 2026-01-31.")],
    until: Annotated[str, typer.Option("--until", help="As --since; now.")] = "0s",
    preview: Annotated[
        bool, typer.Option("--preview", help="Only say what it would come to.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Score kept traces of a span of time: the count and the cost are said first."""
    import msgspec

    from tallymark.app.rules import describe_backfill
    from tallymark.traces.trace_query import read_moment

    with _open(db) as rules:
        now = rules.clock()
        span = (read_moment(since, now=now), read_moment(until, now=now))
        said = rules.preview_backfill(name, *span)
        if not as_json:
            _say_preview(name, said)
        if preview or not said.to_score:
            if as_json:
                print_json({"preview": msgspec.to_builtins(said), "backfill": None})
            return
        if not yes and (as_json or not typer.confirm("Score them?", err=True)):
            if as_json:
                raise InvalidInput("a backfill is confirmed", hint="give --yes, or --preview")
            return
        made = rules.start_backfill(name, *span)
    if as_json:
        told = {"preview": msgspec.to_builtins(said), "backfill": describe_backfill(made)}
        print_json(told)
    else:
        say(f"queued: workers of tally serve or tally worker do it (job {made.job})")
        say(f"  tally rules show {name}")


def _say_preview(name: str, said: BackfillPreview) -> None:
    say(
        f"{name}: {format_count(said.to_score, 'trace')} of {said.traces:,} between"
        f" {format_moment(said.since)} and {format_moment(said.until)} UTC"
    )
    left = {
        "do not meet the filter": said.filtered,
        "are not drawn": said.not_drawn,
        "were decided already": said.decided,
    }
    for why, count in left.items():
        if count:
            say(f"  {count:,} {why}")
    cost = "unknown" if said.cost is None else f"about {format_money(said.cost)}"
    say(f"  cost: {cost}, by {said.cost_by}" if said.cost != 0 else f"  cost: none, {said.cost_by}")
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
def check(file: FileArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Try a rule on the newest kept traces: nothing is stored, and no model is asked."""
    with _open(db) as rules:
        trial = rules.try_out(file)
    if as_json:
        from tallymark.app.rule_definitions import write_rule

        print_json(
            {
                "rule": trial.name or None,
                "definition": write_rule(trial.definition),
                "traces": trial.looked,
                "filtered": trial.filtered,
                "drawn": trial.drawn,
                "scores": {trace: score.to_dict() for trace, score in trial.scores},
            }
        )
        return
    say(f"{file} is a rule")
    if not trial.looked:
        say("no traces are kept here to try it on")
        return
    say(f"of the newest {format_count(trial.looked, 'trace')} it would score {trial.drawn:,}")
    if trial.asks:
        say("it asks a model, and was not tried for that")
    for trace, score in trial.scores:
        what = format_score(score.value) if score.error is None else "failed"
        say(f"  {trace}  {what}  {clean_line(score.error or score.reason, 80)}".rstrip())
