"""`tally challenge`: checking a challenge's folder, publishing it, and seeing what there is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel, open_competition
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import format_moment, format_table, shorten_line

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge

app = typer.Typer(no_args_is_help=True, help="Challenges: check, publish, list.")
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder with a challenge.yaml.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
_MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM"}


@app.command()
def check(
    folder: FolderArgument,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    as_json: JsonOption = False,
) -> None:
    """Try a challenge as its competitors will, honest and not.

    The reference answer must do well; empty, null and random answers must not; the same answer
    must always score the same; and no submission may read the truth.
    """
    from tallymark.challenges.challenge_check import check_challenge
    from tallymark.sandbox.policy import choose_policy

    chosen = choose_policy(insecure_local=True) if insecure_local else None
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}", hint="name one with a challenge.yaml")
    report = check_challenge(folder, policy=chosen, judge_model=judge_model)
    if as_json:
        print_json(report.to_dict())
    else:
        for each in report.findings:
            detail = f": {each.detail}" if each.detail else ""
            typer.echo(f"{_MARKS[each.level]:<8} {each.what}{detail}")
        typer.echo(f"\n{folder}: " + ("ready to publish" if report.ok else "not ready"))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def publish(folder: FolderArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Open a challenge to attempts; published again, it gets a new version."""
    from tallymark.challenges.evaluators import find_evaluator

    with open_competition(db) as competition:
        challenge = competition.publish(folder)
    if as_json:
        print_json(_make_document(challenge))
        return
    typer.echo(f"Published {challenge.name} (version {challenge.version[:12]}).")
    if challenge.kind == "versus":
        typer.echo(f"Play: tally versus submit {challenge.name} FILE --agent NAME --side red")
    elif find_evaluator(challenge.evaluator.type).reported:
        typer.echo(f"Report: tally attempt report {challenge.name} --agent NAME --metric ...")
    else:
        typer.echo(f"Enter: tally attempt enter {challenge.name} --agent NAME")


@app.command("list")
def list_(db: Db = None, as_json: JsonOption = False) -> None:
    """List the published challenges."""
    from tallymark.app.app import App

    with closing(App(db)) as application:
        found = application.store.challenges.all() if application.store.exists else []
    if as_json:
        print_json({"challenges": [_make_document(each) for each in found]})
    elif found:
        heads = ("CHALLENGE", "TITLE", "DIFFICULTY", "KIND", "SCORED BY", "CLOSES (UTC)")
        rows = [
            (
                each.name,
                shorten_line(each.title),
                each.difficulty,
                each.kind,
                shorten_line(_describe_scoring(each)),
                format_moment(each.closes_at) if each.closes_at else "-",
            )
            for each in found
        ]
        typer.echo(format_table(heads, rows))
    else:
        typer.echo("no challenges; publish one with: tally challenge publish DIR")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="CHALLENGE")],
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Show a published challenge: its goal, its limits and how it is scored."""
    from tallymark.app.app import App

    with closing(App(db)) as application:
        challenge = application.store.challenges.get(name)
    if as_json:
        print_json(_make_document(challenge))
        return
    taken = challenge.submission
    lines = [
        f"{challenge.title} ({challenge.name})",
        "",
        challenge.goal.strip(),
        "",
        f"difficulty  {challenge.difficulty}",
        f"time limit  {challenge.time_limit_s:g} s",
        f"attempts    {challenge.attempts or 'any number'}",
        f"submit      {taken.format}, at most {taken.max_bytes:,} bytes",
        f"judged by   {(challenge.versus.judge if challenge.versus else challenge.evaluator).type}",
        f"scored by   {_describe_scoring(challenge)}",
    ]
    if challenge.opens_at:
        lines.append(f"opens       {format_moment(challenge.opens_at)} UTC")
    if challenge.closes_at:
        lines.append(f"closes      {format_moment(challenge.closes_at)} UTC")
    typer.echo("\n".join(lines))


def _make_document(challenge: Challenge) -> dict[str, Any]:
    """What a competitor may know: no evaluator options, which may hold the truth."""
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(challenge)
    document["evaluator"] = {"type": challenge.evaluator.type}
    for private in ("reference", "generate"):
        document.pop(private, None)
    return document


def _describe_scoring(challenge: Challenge) -> str:
    scoring = challenge.scoring
    if challenge.kind == "versus" and challenge.versus is not None:
        return "verdicts in " + ", ".join(challenge.versus.categories)
    if scoring.formula:
        return f"formula {scoring.formula}"
    if scoring.plugin:
        return f"plugin {scoring.plugin}"
    if scoring.dimensions:
        return ", ".join(f"{each.key} {each.weight:g}" for each in scoring.dimensions)
    return scoring.strategy
