"""`tally attempt`: enter a challenge, submit, and see the score."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.challenges.agent_names import label_agent
from tallymark.challenges.challenge_folder import write_received_files
from tallymark.challenges.constraints import list_bounds
from tallymark.cli.options import (
    CommandGroup,
    Db,
    InsecureLocal,
    Json,
    JudgeModel,
    Limit,
    Live,
    Reason,
    Server,
)
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json, write_new_file
from tallymark.errors import InvalidInput, NotAllowed, NotFound, WorkFailed
from tallymark.text import (
    Table,
    align,
    clean_line,
    format_count,
    format_digits,
    format_moment,
    format_number,
    list_some,
    say,
    wrap_paragraphs,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from tallymark.challenges.kept_submission import KeptSubmission
    from tallymark.service.attempts import AttemptRecord, SubmittedAttempt
    from tallymark.service.resources import Resources

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="File to write, or a folder if several files were submitted.",
    ),
]


def keep_files(output: Path, files: Mapping[str, str], *, one: bool) -> None:
    """Write files to a folder, or an answer that is `one` file to the path that the user chose."""
    if one:
        (text,) = files.values()
        write_new_file(output, text)
    else:
        write_received_files(files, output)


def list_texts(files: Mapping[str, str], named: bool) -> Iterator[str]:
    """Yield the texts, each below its file name if files were sent."""
    for name, text in files.items():
        if named:
            yield f"{clean_line(name)}:"
        yield text.rstrip("\n")


app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
ChallengeArgument = Annotated[str, typer.Argument(metavar="CHALLENGE", show_default=False)]
AttemptArgument = Annotated[str, typer.Argument(metavar="ATTEMPT", show_default=False)]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent", metavar="HANDLE", help="Agent that makes the attempt.", show_default=False
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="Repeat the command with the same key to run it only once.",
    ),
]
_MOST_CASES = 20


@app.command()
def enter(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    agent: AgentOption,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write the files of the challenge to."),
    ] = None,
    memoryless: Annotated[
        bool,
        typer.Option(
            "--memoryless", help="Declare that the agent remembers nothing of earlier attempts."
        ),
    ] = False,
    key: KeyOption = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Enter a challenge: the clock starts, and its goal and files are shown."""
    if data is not None and data.exists() and not data.is_dir():  # before the clock starts
        raise InvalidInput(f"--data {data} is a file", hint="name a folder")
    with open_resources(db, server) as tally:
        entry = tally.attempts.enter(challenge, agent, memoryless=memoryless, idempotency_key=key)

    if data is not None and entry.data:
        write_received_files(entry.data, data)
    attempt = entry.attempt
    if as_json:
        print_json(entry)
        return
    say(f"Attempt {attempt.id} of {agent} at {challenge}, number {attempt.number}")
    say("", *wrap_paragraphs(entry.goal.strip()), "")
    if data is not None:
        named = ", ".join(sorted(entry.data))
        say(
            f"Files in {data}: {named}" if named else "The challenge has no files: none is written",
            wrap=True,
        )
    elif entry.data:
        say(
            f"Files: {', '.join(sorted(entry.data))}; --data DIR writes them to a folder", wrap=True
        )
    if bounds := list_bounds(entry.challenge.constraints):
        say(f"May use: {', '.join(bounds)}; send a trajectory that shows it", wrap=True)
    elif entry.challenge.trajectory != "none":
        say(f"Ranks with a trajectory that is {entry.challenge.trajectory}", wrap=True)
    if entry.challenge.trajectory == "witnessed":
        say(f"Its token for spans: tally attempt token {attempt.id} --agent {agent}", wrap=True)
    say(f"Submit before {format_moment(attempt.expires_at)} UTC:")
    say(f"  tally attempt submit {attempt.id} FILE --agent {agent}")


@app.command()
def token(
    attempt: AttemptArgument, agent: AgentOption, db: Db = None, server: Server = None
) -> None:
    """Show the token with which an agent reports spans of an open attempt."""
    with open_resources(db, server) as tally:
        say(tally.attempts.token(attempt, agent).token)


@app.command()
def submit(  # noqa: PLR0913, PLR0917 (the options of a command)
    attempt: AttemptArgument,
    answer: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Answer: a file, a folder of files, or - for stdin."),
    ],
    agent: AgentOption,
    metadata: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file with metadata of the attempt.")
    ] = None,
    trajectory: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Trace file: what the agent did.")
    ] = None,
    key: KeyOption = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Submit the answer of an attempt before the time is up, and see its score."""
    from tallymark.challenges.submitted_files import (  # noqa: PLC0415 (loads all evaluators)
        read_answer,
        read_metadata,
        read_trajectory_text,
    )

    with open_resources(
        db, server, insecure_local=insecure_local, judge_model=judge_model
    ) as tally:
        form = tally.attempts.form(attempt, agent).submission
        done = tally.attempts.submit(
            attempt,
            read_answer(answer, form),
            metadata={} if metadata is None else read_metadata(metadata),
            trajectory=None if trajectory is None else read_trajectory_text(trajectory),
            agent=agent,
            idempotency_key=key,
        )
        _tell(tally, _await_score(tally, done), as_json)


@app.command()
def withdraw(
    attempt: AttemptArgument,
    agent: AgentOption,
    reason: Annotated[str | None, typer.Option(help="Reason, stored in the log.")] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Give up an open attempt, which counts as a loss; then you can enter another."""
    with open_resources(db, server) as tally:
        done = tally.attempts.withdraw(attempt, agent, reason)
    _tell_state(done, as_json, f"Attempt {done.id} of {done.agent} at {done.challenge}: withdrawn")


@app.command()
def report(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    agent: AgentOption,
    metric: Annotated[
        list[str],
        typer.Option(
            "--metric",
            metavar="NAME=VALUE",
            help="Measured value, such as succeeded=true or rating=8. Repeatable.",
        ),
    ],
    key: KeyOption = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Report an attempt that another trusted system ran and measured."""
    metrics = _read_metrics(metric)
    with open_resources(db, server, insecure_local=insecure_local) as tally:
        done = tally.reports.send(challenge, agent, metrics, idempotency_key=key)
        _tell(tally, done, as_json)
        if done.attempt.error is not None:
            again = f"tally attempt void {done.attempt.id} --reason TEXT"
            say(f"tally: to correct a wrong report, first run: {again}", err=True)


@app.command()
def settle(
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Score submissions that wait for a score, and expire attempts that ran out of time."""
    with open_resources(db, None, insecure_local=insecure_local, judge_model=judge_model) as tally:
        done = tally.attempts.settle()
    if as_json:
        print_json({"items": done, "next": None})
    else:
        say("\n".join(_write_headline(each) for each in done) or "nothing to settle")
    _exit_if_waiting(done)


@app.command("list")
def list_(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    agent: Annotated[str | None, typer.Option(help="Only attempts of this agent.")] = None,
    limit: Limit = 20,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """List the attempts at a challenge, newest first."""
    with open_resources(db, server) as tally:
        page = tally.attempts.list(challenge, agent, live=live, limit=limit)
        found = page.items
        names = _find_names(tally, {each.agent for each in found})
        note = _note_freeze(tally, challenge, live)
    labels = {handle: label_agent(handle, name) for handle, name in names.items()}
    if as_json:
        print_json(page)
    elif found:
        heads = ("ATTEMPT", "AGENT", "NUMBER", "ENTERED (UTC)", "STATE", "SCORE", "RESULT")
        rows = [
            (
                each.id,
                labels.get(each.agent, each.agent),
                str(each.number),
                format_moment(each.entered_at),
                _name_state(each),
                format_digits(each.score),
                _name_result(each),
            )
            for each in found
        ]
        drop = ("NUMBER", "RESULT", "ENTERED (UTC)")
        say(Table(heads, rows, right=("NUMBER", "SCORE"), drop=drop), *note)
        waiting = [each for each in found if each.waiting is not None]
        if waiting:
            say("\n" + "\n".join(f"{each.id} waits: {each.waiting}" for each in waiting))
    else:
        say(f"no attempts; make one with: tally attempt enter {challenge} --agent NAME", wrap=True)


@app.command()
def show(
    attempt: AttemptArgument,
    organiser: Annotated[
        bool,
        typer.Option(
            "--organiser",
            help="Also show why an evaluation failed, which may reveal expected answers.",
        ),
    ] = False,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show an attempt: how its score was computed, and its history."""
    with open_resources(db, server) as tally:
        found = tally.attempts.get(attempt, live=live)
        note = _note_freeze(tally, found.challenge, live)
    if organiser and found.reason is msgspec.UNSET:
        hint = "leave --organiser out"
        raise NotAllowed("--organiser is only for organisers", hint=hint)
    if not organiser:
        audit = [each.without_hidden() for each in found.audit]
        found = msgspec.structs.replace(found, audit=audit, reason=msgspec.UNSET)
    if as_json:
        print_json(found)
        return
    say(*list_lines(found), wrap=True)
    for what, facts in found.sandbox.items():
        say(f"  {what} in {_describe_sandbox(facts)}")
    if found.reason:
        say(f"  reason: {found.reason}", wrap=True)
    if found.explanation is not None and not note:
        say(f"\n{found.explanation}")
    say("\nWhat happened:")
    for entry in found.audit:
        said = entry.note or {}
        cause = (said.get("hidden") if entry.event == "waiting" else None) or said.get("reason")
        more = f": {clean_line(cause)}" if cause else ""
        say(f"  {format_moment(entry.at)}  {entry.event} by {clean_line(entry.actor)}{more}")
    if len(found.history) > 1:
        say("\nScores over time:")
        for past in found.history:
            value = "none" if past.score is None else format_digits(past.score)
            rule = past.origin.scorer if past.origin else "unknown"
            say(f"  {format_moment(past.at)}  {value}  (by {rule})")
    say(*note, wrap=True)


@app.command()
def submission(
    attempt: AttemptArgument,
    output: OutputOption = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show a submission. Only its agent and organisers can read it."""
    with open_resources(db, server) as tally:
        kept = tally.attempts.submission(attempt)
    files = kept.list_files()
    if output is not None:
        keep_files(output, files, one=kept.format != "files" or kept.reported is not None)
        say(f"{format_count(len(files), 'file')} of {kept.attempt} in {output}", err=as_json)
    if as_json:
        print_json(kept)
    elif output is None:
        say(*_list_texts(kept, files))


@app.command()
def void(
    attempt: AttemptArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: exclude an attempt from boards, ratings and quotas."""
    with open_resources(db, server) as tally:
        done = tally.attempts.void(attempt, reason)
    line = f"Attempt {done.id} of {done.agent} at {done.challenge} is void."
    _tell_state(done, as_json, f"{line} Undo it with: tally attempt unvoid {done.id} --reason TEXT")


@app.command()
def unvoid(
    attempt: AttemptArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: count a void attempt again."""
    with open_resources(db, server) as tally:
        done = tally.attempts.unvoid(attempt, reason)
    _tell_state(done, as_json, f"Attempt {done.id} of {done.agent} at {done.challenge} counts.")


def _find_names(tally: Resources, agents: Collection[str]) -> dict[str, str]:
    """Find the names of agents that are shown by others than their handles."""
    found = {}
    with suppress(NotAllowed):  # without a key, handles are shown
        found = {each.handle: each.name for each in tally.agents.list(named=True)}
    return {handle: name for handle, name in found.items() if handle in agents}


def _name_state(attempt: AttemptRecord) -> str:
    if attempt.voided_at is not None:
        return "void"
    return attempt.state if attempt.waiting is None else "waiting"


def _name_result(attempt: AttemptRecord) -> str:
    """The result of an attempt; one that ended without a score is a loss."""
    lost = attempt.state in ("withdrawn", "expired", "failed")
    return attempt.result or ("loss" if lost else "-")


def _note_freeze(tally: Resources, challenge: str, live: bool) -> list[str]:
    """One line for who sees less than there is."""
    since = None if live else tally.challenges.get(challenge).frozen
    if since is None:
        return []
    still = f"The board is frozen since {format_moment(since)} UTC"
    return [f"\n{still}: of what came later, no score is shown."]


def _tell_state(attempt: AttemptRecord, as_json: bool, line: str) -> None:
    if as_json:
        print_json(attempt)
    else:
        say(line, wrap=True)


def _describe_sandbox(facts: Mapping[str, Any]) -> str:
    """Behind which walls code ran, and within which limits."""
    seconds = facts.get("timeout_s", facts.get("time_s"))
    limits = [] if seconds is None else [f"{format_number(seconds)} s"]
    limits += [f"{facts['memory_mb']} MB"] if "memory_mb" in facts else []
    return ", ".join([facts["backend"], *limits])


def _await_score(tally: Resources, done: SubmittedAttempt) -> SubmittedAttempt:
    """Wait for a server's worker to score a submission."""
    if done.job is None:
        return done
    while _is_under_way(tally, done.job):
        time.sleep(0.5)

    found = tally.attempts.get(done.attempt.id)
    names = {*found.__struct_fields__} & {*done.__struct_fields__}
    return msgspec.structs.replace(
        done, attempt=found, job=None, **{name: getattr(found, name) for name in names}
    )


def _is_under_way(tally: Resources, job: str) -> bool:
    try:
        return tally.jobs.get(job).state in ("queued", "running")
    except NotFound:  # done, and removed since
        return False


def _tell(tally: Resources, done: SubmittedAttempt, as_json: bool) -> None:
    """Print the score with its arithmetic, and the rank and rating of the agent after it."""
    attempt = done.attempt
    if as_json:
        print_json(done)
        _exit_if_waiting([attempt])
        return
    lines = list_lines(attempt)
    board = tally.boards.get(attempt.challenge, around=attempt.agent, each=1, live=False)
    rank = next((each.rank for each in board.items if each.agent == attempt.agent), None)
    if rank is not None:
        lines.append(f"Rank {rank} of {board.agents}")
    elo = tally.agents.get(attempt.agent, live=False).elo
    if elo is not None:
        counted = format_count(elo.matches, "rated attempt")
        waits = ", provisional: attempts wait to be scored or to expire" if elo.provisional else ""
        lines.append(f"Elo {elo.rating} after {counted}{waits}")
    lines += _note_freeze(tally, attempt.challenge, live=False)
    say(*lines, wrap=True)
    _exit_if_waiting([attempt])


def _exit_if_waiting(attempts: Iterable[AttemptRecord]) -> None:
    """The work could not be done, although nothing is lost."""
    if any(each.waiting is not None for each in attempts):
        raise typer.Exit(WorkFailed.exit_code)


def list_lines(attempt: AttemptRecord) -> list[str]:
    """Lines that explain the score of an attempt."""
    lines = [_write_headline(attempt)]
    parts = attempt.score_breakdown or {}
    rows = [
        (key, score, f"x {weight}", f"= {weighted}")
        for key, part in parts.items()
        for score, weight, weighted in [
            [format_number(part[each]) for each in ("score", "weight", "weighted")]
        ]
    ]
    lines += [f"  {line}" for line in align(rows, [False, True, False, False])]
    weighed = attempt.dimension_score
    if parts and attempt.score is not None and weighed not in (None, attempt.score):
        made = format_digits(attempt.score)
        lines.append(f"  the total is {format_digits(weighed)}; by the challenge's rule, {made}")
    lines += _list_cases(attempt.evaluation)
    told = attempt.scorer.get("details") or {}
    numbers = [(name, format_digits(value)) for name, value in told.items() if _is_number(value)]
    lines += [f"  {line}" for line in align(numbers, [False, False])]
    for warning in attempt.submission_warnings:
        lines.append(f"  {warning['severity']}: {clean_line(warning['message'])}")
    lines += [f"  violation: {clean_line(each)}" for each in attempt.constraint_violations]
    lines += _explain_level(attempt)
    warnings = filter(None, (attempt.harness_warning, attempt.warning))
    return lines + [f"  warning: {clean_line(each)}" for each in warnings]


def _list_cases(evaluation: Mapping[str, Any]) -> list[str]:
    """Which cases of a program's tests or of a suite passed."""
    told = evaluation.get("cases")
    if isinstance(told, dict) and "suite" in evaluation:
        results = [(name, status == "passed") for name, status in told.items()]
        passed, total = evaluation["passed"], evaluation["total"]
    elif isinstance(told, list) and all(_is_case(each) for each in told):
        results = [(str(each["name"]), each["passed"]) for each in told]
        passed, total = sum(won for _, won in results), len(results)
    else:  # a script returns cases in its own format
        return []
    lines = [f"  cases: {passed} of {total} passed"]
    for word, wanted in (("passed", True), ("failed", False)):
        names = [clean_line(name) for name, won in results if won is wanted]
        lines += [f"    {word}: {list_some(names, most=_MOST_CASES)}"] if names else []
    return lines


def _is_case(told: object) -> bool:
    return isinstance(told, dict) and told.keys() == {"name", "passed"}


def _explain_level(attempt: AttemptRecord) -> list[str]:
    """Why a trajectory is not believed further, and what that means for the board."""
    why = "; ".join(attempt.unverified)
    lines = [f"  trajectory {attempt.trajectory_level}: {why}"] if why else []
    return [*lines, f"  not on the board: {attempt.unranked}"] if attempt.unranked else lines


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_headline(attempt: AttemptRecord) -> str:
    void = " (void)" if attempt.voided_at else ""
    head = f"Attempt {attempt.id} of {attempt.agent} at {attempt.challenge}{void}: "
    if attempt.waiting is not None:
        return f"{head}submitted, and waits for `tally attempt settle`: {attempt.waiting}"
    if attempt.trajectory_level is None:  # no outcome yet
        return head + attempt.state
    if attempt.error is not None:
        lost = "; that is a loss" if _name_result(attempt) == "loss" and not void else ""
        return f"{head}no score, because {clean_line(attempt.error)}{lost}"
    level = attempt.trajectory_level
    believed = "" if level == "none" else f", trajectory {level}"
    return f"{head}{format_digits(attempt.score)} ({attempt.result or attempt.state}{believed})"


def _read_metrics(given: list[str]) -> dict[str, Any]:
    from tallymark.challenges.submitted_files import parse_json  # noqa: PLC0415 (loads all evaluators)

    values: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--metric {each} has no value", hint="write NAME=VALUE")
        values[name] = parse_json(text or "null", f"--metric {name}")
    return values


def _list_texts(kept: KeptSubmission, files: Mapping[str, str]) -> Iterator[str]:
    """Texts of a submission, its metadata, and a note about a trajectory."""
    yield from list_texts(files, kept.format == "files")
    if kept.metadata:
        yield f"\nMetadata: {json.dumps(kept.metadata, ensure_ascii=False)}"
    if kept.trajectory is not None:
        yield "\nA trajectory came with it: --json shows it"
