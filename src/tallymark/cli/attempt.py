"""`tally attempt`: enter a challenge, submit, and see what became of it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel, open_competition
from tallymark.cli.streams import print_json, read_text
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import Table, align, clean_line, format_digits, format_moment, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.challenges.attempt import Attempt, Metrics
    from tallymark.challenges.challenge import Challenge
    from tallymark.store import Store

app = typer.Typer(no_args_is_help=True, help="Attempts: enter, submit, report, list, show.")
ChallengeArgument = Annotated[str, typer.Argument(metavar="CHALLENGE", show_default=False)]
AttemptArgument = Annotated[str, typer.Argument(metavar="ATTEMPT", show_default=False)]
AgentOption = Annotated[
    str,
    typer.Option("--agent", metavar="HANDLE", help="Who makes the attempt.", show_default=False),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Said twice with the same key, it is done once.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def enter(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    agent: AgentOption,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder to write the challenge's files to.")
    ] = None,
    memoryless: Annotated[
        bool, typer.Option("--memoryless", help="The agent keeps nothing of earlier attempts.")
    ] = False,
    key: KeyOption = None,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Enter a challenge: the clock starts, and you get its goal and files."""
    with open_competition(db) as competition:
        entry = competition.enter(challenge, agent, memoryless=memoryless, key=key)
    if data is not None:
        _write_files(data, entry.data)
    attempt = entry.attempt
    if as_json:
        extra = {"goal": entry.challenge.goal, "data": dict(entry.data)}
        print_json(_make_document(attempt) | extra)
        return
    say(f"Attempt {attempt.id} of {agent} at {challenge}, number {attempt.number}")
    say(f"\n{entry.challenge.goal.strip()}\n")
    if data is not None and entry.data:
        say(f"Files in {data}: {', '.join(sorted(entry.data))}")
    elif entry.data:
        say(f"Files: {', '.join(sorted(entry.data))}; --data DIR writes them to a folder")
    say(f"Submit before {format_moment(attempt.expires_at)} UTC:")
    say(f"  tally attempt submit {attempt.id} FILE --agent {agent}")


@app.command()
def submit(  # noqa: PLR0913, PLR0917 (the options of a command)
    attempt: AttemptArgument,
    answer: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The answer; a folder of files; - reads from stdin."),
    ],
    agent: AgentOption,
    metadata: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What you say of the attempt, as JSON.")
    ] = None,
    trajectory: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What the agent did, as a trace.")
    ] = None,
    key: KeyOption = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Submit an answer, once, before the time is up, and see its score."""
    with open_competition(
        db, insecure_local=insecure_local, judge_model=judge_model
    ) as competition:
        entered = competition.store.attempts.get(attempt)
        form = competition.store.challenges.get_version(entered.challenge, entered.version)
        done = competition.submit(
            attempt,
            agent,
            read_answer(answer, form.submission.format),
            metadata=None if metadata is None else _read_metadata(metadata),
            trajectory=None if trajectory is None else read_text(trajectory),
            key=key,
        )
        _tell(competition.store, done, as_json)


@app.command()
def report(  # noqa: PLR0913, PLR0917 (the options of a command)
    challenge: ChallengeArgument,
    agent: AgentOption,
    metric: Annotated[
        list[str],
        typer.Option("--metric", metavar="NAME=VALUE", help="As in succeeded=true, rating=8."),
    ],
    key: KeyOption = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Report an attempt that another system, which you trust, saw and measured."""
    with open_competition(db, insecure_local=insecure_local) as competition:
        done = competition.report(challenge, agent, _read_metrics(metric), key=key)
        _tell(competition.store, done, as_json)


@app.command()
def settle(
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """Score what was submitted but not scored, and end what ran out of time."""
    with open_competition(
        db, insecure_local=insecure_local, judge_model=judge_model
    ) as competition:
        done = competition.settle()
    if as_json:
        print_json({"attempts": [_make_document(each) for each in done]})
    else:
        say("\n".join(_write_headline(each) for each in done) or "nothing was left to do")


@app.command("list")
def list_(
    challenge: ChallengeArgument,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    db: Db = None,
    as_json: JsonOption = False,
) -> None:
    """List the attempts at a challenge, newest first."""
    from tallymark.app.app import App

    with closing(App(db)) as application:
        found = application.store.attempts.of(challenge, agent=agent, limit=limit)
        labels = application.store.agents.labels({each.agent for each in found})
    if as_json:
        print_json({"attempts": [_make_document(each) for each in found]})
    elif found:
        heads = ("ATTEMPT", "AGENT", "NUMBER", "ENTERED (UTC)", "STATE", "SCORE", "RESULT")
        rows = [
            (
                each.id,
                labels.get(each.agent, each.agent),
                str(each.number),
                format_moment(each.entered_at),
                each.state,
                _format_score(each),
                (each.outcome.result if each.outcome else None) or "-",
            )
            for each in found
        ]
        say(Table(heads, rows, right=("NUMBER", "SCORE"), wrap=("AGENT",)))
    else:
        say(f"no attempts; make one with: tally attempt enter {challenge} --agent NAME")


@app.command()
def show(attempt: AttemptArgument, db: Db = None, as_json: JsonOption = False) -> None:
    """Show an attempt: how its score came about, and all that happened to it."""
    import msgspec

    from tallymark.app.app import App

    with closing(App(db)) as application:
        found = application.store.attempts.get(attempt)
        challenge = application.store.challenges.get(found.challenge)
        audit = application.store.attempts.audit(attempt)
        history = application.store.attempts.history(attempt)
    if as_json:
        extra = {"audit": msgspec.to_builtins(audit), "history": msgspec.to_builtins(history)}
        print_json(_make_document(found) | extra)
        return
    say("\n".join(_list_lines(found)))
    if challenge.scoring.formula and found.outcome is not None:
        say(f"\n{_explain_score(challenge, found)}")
    say("\nWhat happened:")
    for entry in audit:
        say(f"  {format_moment(entry.at)}  {entry.event} by {clean_line(entry.actor)}")
    if len(history) > 1:
        say("\nScores over time:")
        for past in history:
            value = "none" if past.score is None else f"{past.score:g}"
            rule = past.origin.scorer if past.origin else "unknown"
            say(f"  {format_moment(past.at)}  {value}  (by {rule})")


def _tell(store: Store, attempt: Attempt, as_json: bool) -> None:
    """The score with its arithmetic, and the rank and rating of the agent after it."""
    standing = store.boards.standing(attempt.challenge, attempt.agent)
    rating = store.ratings.of(attempt.agent)
    if as_json:
        after = {"rank": standing.rank if standing else None, "elo": rating.rating}
        print_json(_make_document(attempt) | after)
        return
    lines = _list_lines(attempt)
    if standing is not None:
        lines.append(f"Rank {standing.rank} of {store.boards.size(attempt.challenge)}")
    counted = "1 rated attempt" if rating.matches == 1 else f"{rating.matches} rated attempts"
    lines.append(f"Elo {rating.rating} after {counted}")
    say("\n".join(lines))


def _list_lines(attempt: Attempt) -> list[str]:
    lines = [_write_headline(attempt)]
    outcome = attempt.outcome
    if outcome is None:
        return lines
    parts: Mapping[str, Any] = outcome.details.get("score_breakdown") or {}
    rows = [
        (key, f"{part['score']:g}", f"x {part['weight']:g}", f"= {part['weighted']:g}")
        for key, part in parts.items()
    ]
    lines += [f"  {line}" for line in align(rows, [False, True, False, False])]
    told = (outcome.details.get("scorer") or {}).get("details") or {}
    numbers = [(name, f"{value:g}") for name, value in told.items() if _is_number(value)]
    lines += [f"  {line}" for line in align(numbers, [False, False])]
    for warning in outcome.details.get("submission_warnings") or ():
        lines.append(f"  {warning['severity']}: {clean_line(warning['message'])}")
    violations = outcome.details.get("constraint_violations") or ()
    lines += [f"  violation: {clean_line(each)}" for each in violations]
    for name in ("harness_warning", "warning"):
        if outcome.details.get(name):
            lines.append(f"  warning: {clean_line(outcome.details[name])}")
    return lines


def _explain_score(challenge: Challenge, attempt: Attempt) -> str:
    """The formula with this attempt's values."""
    from tallymark.challenges.attempt_formula import challenge_formula

    rule = challenge_formula(challenge)
    return rule.formula.explain(rule.values_of(challenge, attempt)).render()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _write_headline(attempt: Attempt) -> str:
    head = f"Attempt {attempt.id} of {attempt.agent} at {attempt.challenge}: "
    outcome = attempt.outcome
    if outcome is None:
        return head + attempt.state
    if outcome.error is not None:
        return f"{head}no score, because {clean_line(outcome.error)}"
    verified = ", verified" if attempt.verified else ""
    return f"{head}{_format_score(attempt)} ({outcome.result or attempt.state}{verified})"


def _format_score(attempt: Attempt) -> str:
    return format_digits(attempt.outcome.score if attempt.outcome else None)


def _make_document(attempt: Attempt) -> dict[str, Any]:
    """An attempt as one flat document: the fields of the dimension document at the top."""
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(attempt)
    outcome = document.pop("outcome", None) or {}
    details = outcome.pop("details", {})
    return {**document, "score": outcome.pop("score", None), **outcome, **details}


def read_answer(path: Path, form: str) -> Any:
    """What a file or folder holds, in the form that a challenge takes."""
    if path.is_dir():
        if form != "files":
            raise InvalidInput(f"{path} is a folder, and this challenge takes {form}")
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return {str(each.relative_to(path)): read_text(each) for each in files}
    text = read_text(None if str(path) == "-" else path)
    if form == "files":
        return {path.name: text}
    if form != "json":
        return text.strip() if form == "agent" else text
    return _parse_json(text, str(path))


def _read_metadata(path: Path) -> dict[str, Any]:
    said = _parse_json(read_text(path), str(path))
    if not isinstance(said, dict):
        raise InvalidInput(f"{path} is not a JSON object", hint='as in {"tokens": 1200}')
    return said


def _parse_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{source} is not JSON: {error}") from None
    except RecursionError:
        raise InvalidInput(f"{source} is nested too deeply") from None


def _read_metrics(given: list[str]) -> Metrics:
    import msgspec

    from tallymark.challenges.attempt import Metrics

    known = set(Metrics.__struct_fields__) - {"more"}
    values: dict[str, Any] = {"more": {}}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--metric {each} has no value", hint="write NAME=VALUE")
        value = _parse_json(text or "null", f"--metric {name}")
        (values if name in known else values["more"])[name] = value
    try:
        return msgspec.convert(values, Metrics)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the metrics do not fit: {error}") from None


def _write_files(folder: Path, files: Mapping[str, Any]) -> None:
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            else:
                text = content if isinstance(content, str) else json.dumps(content, indent=2)
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write to {folder}: {error.strerror or error}") from None
