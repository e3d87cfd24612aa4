"""`tally compete`: an agent on this machine plays a challenge from entering to its score."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from tallymark.cli.attempt import list_lines
from tallymark.cli.options import Db, InsecureLocal, Json, JudgeModel, Server, float_option
from tallymark.cli.session import find_server, tell_store
from tallymark.cli.streams import print_json
from tallymark.client import Client
from tallymark.client.competing.contest import Contest, Entrance, make_agent
from tallymark.errors import InvalidInput, TallymarkError, WorkFailed
from tallymark.installation import require_server
from tallymark.service.attempts import SubmittedAttempt
from tallymark.text import (
    align,
    clean_line,
    format_count,
    format_difference,
    format_digits,
    format_number,
    format_seconds,
    say,
    wrap_paragraphs,
)

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.client.competing.contest import Contest, Witnessed
    from tallymark.service.attempts import (
        AttemptDetails,
        AttemptRecord,
        CheckedAnswer,
        SubmittedAttempt,
    )
    from tallymark.service.next_rank import Above
    from tallymark.service.submissions import RatingChange

_GATE_FAILED = 1
_TAKEN = ("submitted", "scored", "failed")


def compete(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: Annotated[
        str | None, typer.Argument(metavar="[CHALLENGE]", show_default=False)
    ] = None,
    program: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="Program to run as the agent.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="REF", help="Python function to call as the agent: file.py:name or module:name."
        ),
    ] = None,
    answer: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Submit this answer without running an agent."),
    ] = None,
    attempt: Annotated[
        str | None,
        typer.Option(
            metavar="ATTEMPT", help="Continue an open attempt, or show the score of an ended one."
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="HANDLE", help="Agent that competes. Default: the agent of your key."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Enter, run the agent and check the answer, but do not submit it."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Submit the answer even if the check found a problem.")
    ] = False,
    timeout: Annotated[
        float | None,
        float_option(
            min=1,
            help="Time limit of the agent, in seconds, if shorter than that of the challenge.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the files of the challenge.")
    ] = None,
    memoryless: Annotated[
        bool,
        typer.Option(
            "--memoryless", help="Declare that the agent remembers nothing of earlier attempts."
        ),
    ] = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Repeat the command with the same key to enter only once."
        ),
    ] = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Let an agent play a challenge: enter, run the agent, check its answer, submit, show score.

    A program reads its task from standard input and the folder TALLY_FOLDER, and prints its answer
    or writes it to the file TALLY_ANSWER. A function gets the task and returns the answer.
    """
    if sum(each is not None for each in (program, function, answer)) != 1:
        hint = 'as in --program "python agent.py", or --function agent.py:solve'
        raise InvalidInput("give one of --program, --function and --answer", hint=hint)
    if challenge is None and attempt is None:
        raise InvalidInput("no challenge is named", hint="see: tally challenge list")

    player = None if answer is not None else make_agent(program, function)
    with _open_client(server, db, insecure_local, judge_model) as (client, name):
        contest = Contest(client, _show_line, name, folder)
        entrance = Entrance(
            challenge=challenge,
            attempt=attempt,
            agent=agent,
            memoryless=memoryless,
            key=idempotency_key,
        )
        # The command may be repeated when it is not known whether the answer arrived.
        found = None if attempt is None else contest.find_result(attempt)
        if found is None or found.state not in _TAKEN:
            entered = contest.enter(entrance).attempt
            found = None if entered.state == "entered" else contest.find_result(entered.id)
        if found is not None:
            say(f"Attempt {found.id} is not open any more. This came of it:", err=True)
            _tell(found, contest, as_json)
            return
        again = _list_options(
            program=program,
            function=function,
            server=server,
            db=db,
            insecure_local=insecure_local,
        )
        with _keep_open(contest, again):
            _say_entered(contest)
            if player is None:
                assert answer is not None  # noqa: S101 (one of them is given)
                given, contest.answer_file = contest.read(answer), answer
            else:
                given = contest.work(player, timeout)
            _stop_if_found(contest.check(given), check=check, force=force)
            if check:
                _tell_checked(contest, again, as_json)
                return
            done = contest.submit(given)
        _tell(done, contest, as_json)


@contextmanager
def _open_client(
    server: str | None, db: str | None, insecure_local: bool, judge_model: str | None
) -> Iterator[tuple[Client, str]]:
    """The server that is meant, and its name; for one's own store, one of our own beside us."""
    found = find_server(db, server)
    if found is not None:
        with Client(found.url, found.key) as client:
            yield client, urlsplit(found.url).netloc.replace(":", "-")
        return
    require_server("competing in your own store")
    from tallymark.server import serve_beside  # noqa: PLC0415 (needs tallymark[server])
    from tallymark.service.service import Service  # noqa: PLC0415 (heavy, and a worker does without it)
    from tallymark.service.settings import read_settings  # noqa: PLC0415 (loads SQLAlchemy)

    settings = read_settings(
        os.environ,
        db=db,
        own=True,
        workers=1,
        insecure_local=insecure_local,
        judge_model=judge_model,
    )
    tell_store(db)
    # A key in the environment is for another server; this one needs none.
    with serve_beside(Service(settings)) as address, Client(address, "") as client:
        yield client, "own"


@contextmanager
def _keep_open(contest: Contest, again: dict[str, str]) -> Iterator[None]:
    """Show how to continue the attempt if an error or Ctrl-C ends the command early."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, TallymarkError):
            say(f"tally: {error.render()}", err=True)
        left = contest.seconds_left
        if contest.is_taken or left > 0:
            still = f"The attempt is still open, for {format_seconds(left)}. Continue with:"
            say("The answer is taken. See its score with:" if contest.is_taken else still, err=True)
            say(f"  {_write_next(contest, again)}", err=True)
        if isinstance(error, TallymarkError):
            raise typer.Exit(error.exit_code) from None
        raise


def _list_options(**given: str | bool | None) -> dict[str, str]:
    """Options to repeat in a follow-up command."""
    return {
        f"--{name.replace('_', '-')}": "" if value is True else quote(str(value))
        for name, value in given.items()
        if value
    }


def _write_next(contest: Contest, again: dict[str, str]) -> str:
    """The command that goes on: with the answer, where there is one."""
    entered, found = contest.entered, contest.answer_file
    assert entered is not None  # noqa: S101 (who asks has entered)
    if found is not None:
        others = {
            name: each for name, each in again.items() if name not in ("--program", "--function")
        }
        again = {"--answer": quote(str(found)), **others}
    options = " ".join(f"{name} {value}".strip() for name, value in again.items())
    return f"tally compete --attempt {entered.attempt.id} {options}"


def _show_line(line: str) -> None:
    say(f"| {line}", err=True)


def _say_entered(contest: Contest) -> None:
    entered = contest.entered
    assert entered is not None  # noqa: S101
    attempt = entered.attempt
    left = format_seconds(contest.seconds_left)
    head = f"Attempt {attempt.id} of {attempt.agent} at {attempt.challenge}"
    say(f"{head}, number {attempt.number}: {left} left", err=True)
    say("", *wrap_paragraphs(entered.goal.strip()), "", err=True)


def _stop_if_found(checked: CheckedAnswer, *, check: bool, force: bool) -> None:
    """Show the findings of the check; stop on a warning unless `force` is set."""
    for each in checked.findings:
        said = ": ".join(filter(None, (each.place, each.message)))
        say(f"{each.severity}: {clean_line(said)}{f'; {each.hint}' if each.hint else ''}", err=True)
    if any(each.severity == "warning" for each in checked.findings) and not force:
        if not check:
            say("Not submitted: fix the answer, or submit it with --force.", err=True)
        raise typer.Exit(_GATE_FAILED)


def _tell_checked(contest: Contest, again: dict[str, str], as_json: bool) -> None:
    entered = contest.entered
    assert entered is not None  # noqa: S101
    if as_json:
        told = {"attempt": entered.attempt, "submitted": False}
        print_json(told | _describe_work(contest))
        return
    say(f"The answer would be taken. It is not submitted: {contest.answer_file}", wrap=True)
    left = format_seconds(contest.seconds_left)
    say(
        f"Without a submission in {left}, the attempt is a loss:",
        f"  {_write_next(contest, again)}",
        wrap=True,
    )


def _tell(done: SubmittedAttempt | AttemptDetails, contest: Contest, as_json: bool) -> None:
    """Print the score with its arithmetic, the place, and what the one above did better."""
    attempt = done.attempt if isinstance(done, SubmittedAttempt) else done
    if as_json:
        print_json(msgspec.to_builtins(done) | _describe_work(contest))
    else:
        say(*list_lines(attempt), *_list_place(done, attempt, contest.witnessed), wrap=True)
    if attempt.state == "submitted":
        why = "its score is not there yet" if attempt.waiting is None else "it could not be scored"
        say(f"tally: {why}; look again with: tally attempt show {attempt.id}", err=True)
        raise typer.Exit(WorkFailed.exit_code)


def _describe_work(contest: Contest) -> dict[str, Any]:
    folder = None if contest.brief is None else contest.brief.folder
    answer = None if contest.answer_file is None else str(contest.answer_file)
    seen = {"spans": contest.witnessed.spans, "problem": contest.witnessed.problem}
    return {"witnessed": seen, "folder": folder, "answer_file": answer}


def _list_place(
    done: SubmittedAttempt | AttemptDetails, attempt: AttemptRecord, witnessed: Witnessed
) -> Iterator[str]:
    level = attempt.trajectory_level
    if level == "witnessed" and witnessed.spans:
        spans = format_count(witnessed.spans, "span")
        yield f"  witnessed: {spans} of the agent reached the server in time"
    elif level in ("none", "claimed"):
        why = "" if witnessed.spans else "no span of the agent reached the server; "
        yield f"  not witnessed: {why}that costs the points for efficiency and the Elo bonus"
    if witnessed.problem:
        yield f"  spans that were not taken: {clean_line(witnessed.problem, 300)}"
    if done.rank is not None:
        by = "" if done.best in (None, attempt.id) else f", by your attempt {done.best}"
        yield f"Rank {done.rank}{by}"
    rating: RatingChange | None = getattr(done, "rating", None)
    if rating is not None:
        provisional = ", provisional" if rating.provisional else ""
        before = "" if rating.before is None else f"{rating.before} -> "
        yield f"Elo {before}{rating.after}{provisional}"
    yield from _list_above(done.above, done.rank)


def _list_above(above: Above | None, rank: int | None) -> Iterator[str]:
    if above is None:
        if rank == 1:
            yield "No agent is above."
        return
    ahead = f", ahead by {format_digits(abs(above.gap))}" if above.gap else ", as much, and earlier"
    ahead = "" if above.gap is None else ahead
    yield f"Above, at {above.rank}: {above.agent} with {format_digits(above.value)}{ahead}"
    leads = [(each, round(each.points, 2)) for each in above.leads]
    rows = [
        (clean_line(each.key), format_number(each.theirs), "against",
         format_number(each.mine), f"{format_difference(format_number, points)} points")
        for each, points in leads
        if points
    ]  # fmt: skip
    yield from (f"  {line}" for line in align(rows, [False, True, False, True, True]))
