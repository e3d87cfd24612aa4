"""`tally versus`: red against blue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel, Server, open_desk
from tallymark.cli.attempt import AgentOption, ChallengeArgument, JsonOption
from tallymark.cli.streams import print_json
from tallymark.text import say

app = typer.Typer(no_args_is_help=True, help="Red against blue: submit attacks and defences.")


@app.command()
def submit(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    answer: Annotated[Path, typer.Argument(metavar="FILE", help="An attack or a defence.")],
    agent: AgentOption,
    side: Annotated[Literal["red", "blue"], typer.Option(help="red attacks, blue defends.")],
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """Submit an attack or a defence; it meets every active one of the other side."""
    import msgspec

    from tallymark.challenges.submitted_files import read_answer
    from tallymark.desk.judging import JudgedHere

    how = JudgedHere(insecure_local=insecure_local, judge_model=judge_model)
    with open_desk(db, server) as desk:
        content = read_answer(answer, desk.versus.find_form(challenge))
        submission, verdicts = desk.versus.submit(challenge, agent, side, content, how)
    if as_json:
        print_json(msgspec.to_builtins({"submission": submission, "verdicts": verdicts}))
        return
    judged = [each.breached for each in verdicts if each.breached is not None]
    won = sum(breached == (side == "red") for breached in judged)
    say(f"Submission {submission.number} of {agent} for {side} at {challenge}")
    say(f"{won} of {len(judged)} points" if judged else "nobody to meet yet")
    if len(judged) < len(verdicts):
        say(f"{len(verdicts) - len(judged)} not judged; see tally versus settle {challenge}")


@app.command()
def settle(  # noqa: PLR0913, PLR0917 (as above)
    challenge: ChallengeArgument,
    again: Annotated[
        bool, typer.Option("--again", help="Also what a judge tried and failed to judge.")
    ] = False,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """Judge what was left without a verdict."""
    from tallymark.desk.judging import JudgedHere

    how = JudgedHere(insecure_local=insecure_local, judge_model=judge_model)
    with open_desk(db, server) as desk:
        judged, failed = desk.versus.settle(challenge, again=again, how=how)
    if as_json:
        import msgspec

        print_json({"judged": judged} | ({"failed": msgspec.to_builtins(failed)} if failed else {}))
        return
    say(f"{judged} judged")
    for each in failed:
        say(f"  {each.red} against {each.blue}, {each.category}: {each.error}")
