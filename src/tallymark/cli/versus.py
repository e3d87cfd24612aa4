"""`tally versus`: red against blue."""

from __future__ import annotations

from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from tallymark.challenges.versus.pairings import require_versus
from tallymark.cli.attempt import (
    AgentOption,
    ChallengeArgument,
    OutputOption,
    keep_files,
    list_texts,
)
from tallymark.cli.options import CommandGroup, Db, InsecureLocal, Json, JudgeModel, Limit, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.text import Table, clean_line, format_count, format_moment, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.challenges.kept_submission import KeptSideSubmission, SideVerdict

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)


@app.command()
def submit(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    answer: Annotated[
        Path, typer.Argument(metavar="FILE", help="File with an attack or a defence.")
    ],
    agent: AgentOption,
    side: Annotated[
        Literal["red", "blue"], typer.Option(help="Side to play: red attacks, blue defends.")
    ],
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Submit an attack or a defence, which meets every active submission of the other side."""
    from tallymark.challenges.submitted_files import read_answer  # noqa: PLC0415 (loads all evaluators)

    how = partial(open_resources, insecure_local=insecure_local, judge_model=judge_model)
    with how(db, server) as tally:
        known = tally.challenges.get(challenge)
        require_versus(known)
        sent = tally.versus.submit(
            challenge, side, read_answer(answer, known.submission), agent=agent
        )
    if as_json:
        print_json(msgspec.to_builtins(sent))
        return
    submission, verdicts = sent.submission, sent.verdicts
    judged = [each.breached for each in verdicts if each.breached is not None]
    won = sum(breached == (side == "red") for breached in judged)
    say(f"Submission {submission.number} of {agent} for {side} at {challenge}")
    say(f"{won} of {len(judged)} points" if judged else "no opponent yet")
    if len(judged) < len(verdicts):
        say(
            f"{len(verdicts) - len(judged)} not judged; see tally versus settle {challenge}",
            wrap=True,
        )


@app.command(name="list")
def list_(  # noqa: PLR0913, PLR0917 (as above)
    challenge: ChallengeArgument,
    agent: Annotated[
        str | None, typer.Option(metavar="HANDLE", help="Only submissions of this agent.")
    ] = None,
    side: Annotated[
        Literal["red", "blue"] | None, typer.Option(help="Only submissions of this side.")
    ] = None,
    limit: Limit = 20,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List your submissions, newest first; organisers see all."""
    with open_resources(db, server) as tally:
        found = list(islice(tally.versus.list(challenge, agent, side), limit))
    if as_json:
        print_json({"submissions": msgspec.to_builtins(found)})
    elif found:
        heads = ("SUBMISSION", "SIDE", "AGENT", "NUMBER", "SUBMITTED (UTC)")
        rows = [
            (
                str(each.id),
                each.side,
                each.agent,
                str(each.number),
                format_moment(each.submitted_at),
            )
            for each in found
        ]
        say(Table(heads, rows, right=("SUBMISSION", "NUMBER"), drop=("NUMBER", heads[-1])))
    else:
        how = f"tally versus submit {challenge} FILE --agent NAME --side red"
        say(f"no submissions; make one with: {how}", wrap=True)


@app.command()
def submission(
    challenge: ChallengeArgument,
    submission: Annotated[
        int,
        typer.Argument(
            metavar="SUBMISSION", help="Number of a submission, as `tally versus list` shows it."
        ),
    ],
    output: OutputOption = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show a submission. Only its agent and organisers can read it."""
    with open_resources(db, server) as tally:
        kept = tally.versus.get(challenge, submission)
    files = kept.list_files()
    if output is not None:
        keep_files(output, files, one=kept.format != "files")
        say(f"{format_count(len(files), 'file')} of {kept.id} in {output}", err=as_json)
    if as_json:
        print_json(msgspec.to_builtins(kept))
    elif output is None:
        say(*_describe(kept), "", *list_texts(files, kept.format == "files"))


def _describe(kept: KeptSideSubmission) -> Iterator[str | Table]:
    late = "" if kept.active else ", which a newer one has replaced"
    yield (
        f"Submission {kept.number} of {kept.agent} for {kept.side} at {kept.challenge},"
        f" {format_moment(kept.submitted_at)} UTC{late}"
    )
    if not kept.verdicts:
        yield "no opponent yet"
        return
    rows = [_describe_verdict(each) for each in kept.verdicts]
    # Reasons are hidden from players while the challenge runs.
    columns = 4 if any(why for *_, why in rows) else 3
    heads = ("AGAINST", "CATEGORY", "VERDICT", "WHY")[:columns]
    yield Table(heads, [row[:columns] for row in rows], wrap=("WHY",))


def _describe_verdict(verdict: SideVerdict) -> tuple[str, str, str, str]:
    words = {True: "breached", False: "held", None: verdict.state}
    why = verdict.reason if verdict.breached is not None else verdict.error or ""
    return verdict.opponent, verdict.category, words[verdict.breached], clean_line(why)


@app.command()
def settle(  # noqa: PLR0913, PLR0917 (as above)
    challenge: ChallengeArgument,
    again: Annotated[
        bool, typer.Option("--again", help="Also retry pairs that a judge failed to judge.")
    ] = False,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Judge the pairs that have no verdict yet."""
    how = partial(open_resources, insecure_local=insecure_local, judge_model=judge_model)
    with how(db, server) as tally:
        done = tally.versus.settle(challenge, again)
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    say(f"{done.judged} judged")
    for each in done.failed:
        say(f"  {each.red} against {each.blue}, {each.category}: {each.error}")
