"""`tally challenge`: a folder to start from, checking it, publishing it, seeing what there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallymark.challenges.challenge_starters import write_starter
from tallymark.cli.options import (
    CommandGroup,
    Db,
    InsecureLocal,
    Json,
    JudgeModel,
    Quiet,
    Reason,
    Server,
)
from tallymark.cli.session import open_resources
from tallymark.cli.streams import confirm, print_json
from tallymark.errors import InvalidInput, NotReady
from tallymark.sandbox.policy import choose_policy
from tallymark.text import (
    Table,
    align,
    format_moment,
    format_number,
    say,
    wrap_lines,
    wrap_paragraphs,
)

if TYPE_CHECKING:
    from tallymark.service.challenges import Challenge

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with a challenge.yaml.", show_default=False)
]
NameArgument = Annotated[str, typer.Argument(metavar="CHALLENGE", show_default=False)]
_TYPES = "deterministic, tests, script, judge, suite, reported or versus"
_MARKS = {"ok": ("ok", ""), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}


@app.command()
def init(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="TYPE", help=f"{_TYPES}.", show_default=False),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Folder to write. Default: my-TYPE.", show_default=False
        ),
    ] = None,
) -> None:
    """Write a small working challenge, with comments that explain it."""
    if kind is None:
        raise InvalidInput("no type of challenge is given", hint=f"name one: {_TYPES}")
    chosen = Path(f"my-{kind}") if folder is None else folder
    starter = write_starter(kind, chosen)
    say(f"Wrote {chosen}: {', '.join(starter.files)}", "", "Try it, publish it, play it:")
    say(*(f"  {each}" for each in starter.commands))
    if starter.note:
        say("", *wrap_lines(starter.note, indent=0))


@app.command()
def check(
    folder: FolderArgument,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check a challenge before publishing it, by honest and dishonest attempts.

    The reference answer must score well; empty, null and random answers must not; the same answer
    must always score the same; no submission may read the expected answers.
    """
    from tallymark.challenges.challenge_check import check_challenge  # noqa: PLC0415 (loads all evaluators)

    chosen = choose_policy(insecure_local=True) if insecure_local else None
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}", hint="name one with a challenge.yaml")
    report = check_challenge(folder, policy=chosen, judge_model=judge_model)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        shown = [each for each in report.findings if not quiet or each.level == "problem"]
        for each in shown:
            detail = f": {each.detail}" if each.detail else ""
            mark, style = _MARKS[each.level]
            say(*wrap_lines(f"{mark:<8} {each.what}{detail}", style, indent=9))
        ready = "ready to publish" if report.ok else "not ready"
        say(*([""] if shown else []), f"{folder}: {ready}")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def publish(
    folder: FolderArgument,
    force: Annotated[
        bool, typer.Option("--force", help="Publish the challenge without checking it.")
    ] = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Publish a challenge, or a new version of it.

    It is checked first, and refused if it is not ready.
    """
    from tallymark.challenges.challenge_file import load_challenge  # noqa: PLC0415 (loads all evaluators)
    from tallymark.challenges.challenge_folder import pack  # noqa: PLC0415 (loads all evaluators)
    from tallymark.challenges.evaluators import find_evaluator  # noqa: PLC0415 (heavy)

    load_challenge(folder)  # a mistake is shown with its place here
    with open_resources(db, server) as tally:
        try:
            challenge = tally.challenges.publish(pack(folder), force)
        except NotReady as error:
            for each in error.problems:
                say(f"tally: {each}", err=True)
            say(f"tally: {folder} is not ready; fix it, or publish it with --force", err=True)
            raise typer.Exit(error.exit_code) from None
    if as_json:
        _print_record(challenge)
        return
    say(f"Published {challenge.name} (version {challenge.version[:12]}).")
    if challenge.kind == "versus":
        say(f"Play: tally versus submit {challenge.name} FILE --agent NAME --side red", wrap=True)
    elif find_evaluator(challenge.evaluator.type).reported:
        say(
            f"Report: tally attempt report {challenge.name} --agent NAME --metric succeeded=true",
            wrap=True,
        )
    else:
        say(f"Enter: tally attempt enter {challenge.name} --agent NAME", wrap=True)


@app.command("list")
def list_(db: Db = None, server: Server = None, as_json: Json = False) -> None:
    """List the published challenges."""
    with open_resources(db, server) as tally:
        found = list(tally.challenges.list())
    if as_json:
        print_json({"challenges": msgspec.to_builtins(found)})
    elif found:
        heads = ("CHALLENGE", "TITLE", "DIFFICULTY", "KIND", "STATE", "CLOSES (UTC)", "SCORED BY")
        rows = [
            (
                each.name,
                each.title,
                each.difficulty,
                each.kind,
                each.state,
                format_moment(each.closes_at) if each.closes_at else "-",
                _describe_scoring(each),
            )
            for each in found
        ]
        drop = ("SCORED BY", "KIND", "DIFFICULTY", "CLOSES (UTC)", "TITLE")
        say(Table(heads, rows, wrap=("TITLE", "SCORED BY"), drop=drop))
    else:
        say("no challenges; publish one with: tally challenge publish DIR", wrap=True)


@app.command()
def show(
    name: NameArgument,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show a published challenge: its goal, its limits and how it is scored."""
    from tallymark.challenges.constraints import list_bounds  # noqa: PLC0415 (a list does without it)

    with open_resources(db, server) as tally:
        challenge = tally.challenges.get(name)
    if as_json:
        _print_record(challenge)
        return
    taken = challenge.submission
    rows = [
        ("difficulty", challenge.difficulty),
        ("time limit", f"{format_number(challenge.time_limit_s)} s"),
        ("attempts", _describe_quota(challenge)),
        ("rated", _RATED[challenge.rated]),
        ("submit", f"{taken.format}, at most {taken.max_bytes:,} bytes"),
        ("judged by", (challenge.versus.judge if challenge.versus else challenge.evaluator).type),
        ("scored by", _describe_scoring(challenge)),
    ]
    if challenge.trajectory != "none":
        rows.append(("ranks with", f"a trajectory that is {challenge.trajectory}"))
    if bounds := list_bounds(challenge.constraints):
        rows.append(("may use", ", ".join(bounds)))
        rows.append(("a constraint broken", _EFFECTS[challenge.constraints.on_violation]))
    if challenge.opens_at:
        rows.append(("opens", f"{format_moment(challenge.opens_at)} UTC"))
    closes = challenge.closes_at
    rows.append(("closes", f"{format_moment(closes)} UTC" if closes else "no date is set"))
    rows += [(word, f"since {format_moment(at)} UTC") for word, at in _list_state(challenge)]
    goal = wrap_paragraphs(challenge.goal.strip())
    say(f"{challenge.title} ({challenge.name})", "", *goal, "")
    say(*(line for row in align(rows, [False, False]) for line in wrap_lines(row, indent=4)))
    if taken.schema is not None:
        say("\nAn answer fits this JSON Schema:", json.dumps(taken.schema, indent=2))


@app.command()
def close(
    name: NameArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: stop new entries. Open attempts can still be submitted in time."""
    with open_resources(db, server) as tally:
        _tell_state(tally.challenges.change(name, reason, closed=True), as_json)


@app.command()
def reopen(
    name: NameArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: accept entries again."""
    with open_resources(db, server) as tally:
        _tell_state(tally.challenges.change(name, reason, closed=False), as_json)


@app.command()
def freeze(
    name: NameArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: freeze the public board as it is now. Attempts continue."""
    with open_resources(db, server) as tally:
        _tell_state(tally.challenges.change(name, reason, frozen=True), as_json)


@app.command()
def unfreeze(
    name: NameArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: show the public the live board again."""
    with open_resources(db, server) as tally:
        _tell_state(tally.challenges.change(name, reason, frozen=False), as_json)


@app.command()
def delete(
    name: NameArgument,
    reason: Reason,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    db: Db = None,
    server: Server = None,
) -> None:
    """For organisers: delete a challenge without attempts. The log keeps a record of it."""
    with open_resources(db, server) as tally:
        title = tally.challenges.get(name).title
        if confirm(f"Delete the challenge {name}, {title}?", yes=yes):
            tally.challenges.delete(name, reason)
            say(f"deleted {name}")


@app.command()
def rename(
    name: NameArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name, which is also its address.")],
    reason: Reason,
    db: Db = None,
    server: Server = None,
) -> None:
    """For organisers: rename a challenge. Its attempts, board and log stay."""
    with open_resources(db, server) as tally:
        tally.challenges.change(name, reason, new_name=new)
    say(
        f"{name} is now called {new}; write that into its challenge.yaml before you publish again",
        wrap=True,
    )


def _tell_state(challenge: Challenge, as_json: bool) -> None:
    if as_json:
        _print_record(challenge)
        return
    words = [f"{word} since {format_moment(at)} UTC" for word, at in _list_state(challenge)]
    say(f"{challenge.name}: {' and '.join(words) or 'open, its board live'}")


def _list_state(challenge: Challenge) -> list[tuple[str, float]]:
    times = {"closed": challenge.closed, "frozen": challenge.frozen}
    return [(word, at) for word, at in times.items() if at is not None]


def _print_record(challenge: Challenge) -> None:

    print_json(msgspec.to_builtins(challenge))


def _describe_quota(challenge: Challenge) -> str:
    total, per_day = challenge.attempts, challenge.attempts_per_day
    said = "any number" if total is None else f"{total} in all"
    return f"{said}, {'any number' if per_day is None else per_day} a day"


_RATED = {
    "every": "every attempt",
    "until_won": "every attempt until one is won",
    "first": "the first attempt",
    None: "no attempt",
}
_EFFECTS = {"note": "is noted", "zero": "a score of 0, and a loss", "fail": "no score, and a loss"}


def _describe_scoring(challenge: Challenge) -> str:
    scoring = challenge.scoring
    if challenge.kind == "versus" and challenge.versus is not None:
        return "verdicts in " + ", ".join(challenge.versus.categories)
    weights = ", ".join(f"{each.key} {format_number(each.weight)}" for each in scoring.dimensions)
    if scoring.formula:
        return f"formula {scoring.formula}" + (f"; total: {weights}" if weights else "")
    if scoring.plugin:
        return f"plugin {scoring.plugin}"
    return weights or scoring.strategy
