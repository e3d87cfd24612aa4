"""`tally rescore`: a run, or a challenge, seen by another rule."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.challenges.agent_names import label_agent
from tallymark.challenges.rescoring import Rescoring
from tallymark.cli.options import (
    Db,
    EngineName,
    InsecureLocal,
    Json,
    Quiet,
    Server,
    Workers,
    choose_where,
)
from tallymark.cli.progress import show_progress
from tallymark.cli.run import name_file
from tallymark.cli.run_output import print_runs
from tallymark.cli.session import find_server, open_resources
from tallymark.cli.streams import print_json
from tallymark.cli.workplace import open_checkpoint
from tallymark.errors import InvalidInput, NotFound, WorkFailed
from tallymark.text import (
    Table,
    clean_line,
    format_count,
    format_digits,
    format_number,
    format_score,
    say,
    shorten_line,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.challenges.rescoring import BoardPlace, Move, Rescoring
    from tallymark.runs.run import Run
    from tallymark.service.resources import Resources

_MOVES_SHOWN = 20
_LOOK_S = 0.5
"""Between two looks at a job."""
_HOW_TO_APPLY = "--apply --reason TEXT does it"
_NOTHING_DONE = f"Nothing was changed; {_HOW_TO_APPLY}."


def rescore(  # noqa: PLR0913, PLR0917 (the options of a command)
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHALLENGE",
            help="A run (id, start of an id, name, latest, latest~1), or a challenge.",
        ),
    ],
    formula: Annotated[str | None, typer.Option(help="Formula to score by.")] = None,
    suite: Annotated[
        Path | None, typer.Option(help="Runs: suite whose checks and formula to use.")
    ] = None,
    plugin: Annotated[str | None, typer.Option(help="Challenges: plugin to score by.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="KEY=VALUE",
            help="Challenges: value of the scoring config. Repeatable.",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Challenges: folder with a new version of the challenge.",
        ),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Store the result: as a new run, or as new scores of the challenge."
        ),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(help="Reason, stored in the log. A challenge needs one with --apply."),
    ] = None,
    quiet: Quiet = False,
    insecure_local: InsecureLocal = False,
    engine: EngineName = None,
    workers: Workers = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Score a run, or all attempts at a challenge, by another rule.

    No model is called. Without --apply, it only shows what would change. With --apply, the run is
    stored as a new one, next to the old one; attempts at a challenge get the new scores, and their
    history keeps the old ones.
    """
    given = {"formula": formula, "plugin": plugin, "config": _parse_config(config)}
    scoring: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not (plugin or config or folder):
        with open_resources(db, server) as tally:
            missing = _find_missing(tally, name)
        if missing is not None:
            if reason is not None:
                raise InvalidInput("--reason is for challenges", hint="leave it out for a run")
            with open_resources(db, server) as tally:
                try:
                    before, after, saved = _rescore_run(tally, name, formula, suite, apply)
                except NotFound:
                    if "did you mean" in missing.render():  # a challenge, misspelt
                        raise missing from None
                    raise
                _tell_run(before, after, saved, as_json, quiet)
            return
    if suite:
        raise InvalidInput("--suite is for runs, not for challenges", hint="give --folder DIR")
    if (folder is None) == (not scoring):
        raise InvalidInput("give a new rule", hint="--formula, --plugin, --config, or --folder DIR")
    if apply and not (reason or "").strip():
        raise InvalidInput(f"rescoring {name} needs a reason for the log", hint="add --reason TEXT")

    choice = choose_where(engine, workers, is_remote=find_server(db, server) is not None)
    with show_progress("rescoring") as update:
        known: dict[str, Any] = {"engine": choice, "on_progress": update}
        with open_resources(db, server, insecure_local=insecure_local, **known) as tally:
            found = _rescore_challenge(tally, name, folder, scoring, reason if apply else None)
            names = tally.agents.find_names(each.agent for each in found.moves)
    labels = {handle: label_agent(handle, shown) for handle, shown in names.items()}
    if as_json:
        print_json(msgspec.to_builtins(found) | {"applied": apply})
        return
    if quiet:
        did = f"{found.challenge}: {_count_changed(found, applied=apply)}"
        say(did if apply else f"{did}; {_count_moved(found)} would move; {_HOW_TO_APPLY}")
        return
    say(*_describe_rescoring(found, labels, applied=apply), wrap=True)


def _rescore_challenge(
    tally: Resources,
    name: str,
    folder: Path | None,
    scoring: Mapping[str, Any],
    reason: str | None,
) -> Rescoring:
    """Rescore a challenge, or without a reason preview that; a job of a server is waited for."""
    how: dict[str, Any] = {"preview": reason is None, "reason": reason}
    if folder is None:
        done = tally.challenges.rescore(name, **scoring, **how)
    else:
        from tallymark.challenges.challenge_file import load_challenge  # noqa: PLC0415 (loads all evaluators)
        from tallymark.challenges.challenge_folder import pack  # noqa: PLC0415 (loads all evaluators)

        load_challenge(folder)  # a mistake is shown with its place here
        done = tally.challenges.rescore_files(name, pack(folder), **how)
    if done.rescoring is not None:
        return done.rescoring

    job = tally.jobs.get(done.job or "")
    while job.state in ("queued", "running"):
        time.sleep(_LOOK_S)
        job = tally.jobs.get(job.id)
    if job.state != "done":
        raise WorkFailed(job.error or f"job {job.id} is {job.state.replace('_', ' ')}")
    return msgspec.convert(job.result["rescoring"], Rescoring)


def _find_missing(tally: Resources, name: str) -> InvalidInput | None:
    """Why no challenge is called so; None where one is."""
    try:
        tally.challenges.get(name)
    except InvalidInput as error:
        return error
    return None


def _rescore_run(
    tally: Resources, run: str, formula: str | None, suite: Path | None, apply: bool
) -> tuple[Run, Run, str | None]:
    """Score a run by another formula or suite here; return both, and the id of the new run."""
    if formula is None and suite is None:
        hint = 'as in --formula "success_pct"'
        raise InvalidInput("give --formula or --suite", hint=hint)
    from tallymark.service.suite_runs import RunOptions  # noqa: PLC0415 (loads all checks)
    from tallymark.suites.rechecks import rescore as rescore_here  # noqa: PLC0415 (loads all checks)
    from tallymark.suites.suite_file import load_suite  # noqa: PLC0415 (loads all checks)

    with show_progress("rescoring") as update, open_checkpoint(tally) as work:
        before, other = tally.runs.load(run, traces=True), None
        if suite is not None:
            options = work.fill_in(RunOptions())
            other = work.app.runs.resolve_like(before.record, load_suite(suite), options)
        after = rescore_here(before, formula=formula, suite=other, on_progress=update)
        if not apply:
            return before, after, None
        if not tally.is_remote:
            return before, after, work.app.runs.save_as_new(after).id
        text = None if suite is None else suite.read_text(encoding="utf-8")
        with name_file(suite) if suite is not None else nullcontext():
            kept = tally.runs.rescore(before.record.id, formula=formula, suite=text)
        return before, after, kept.saved_as


def _tell_run(before: Run, after: Run, saved: str | None, as_json: bool, quiet: bool) -> None:
    from tallymark.runs.reports.summary_report import summary_lines  # noqa: PLC0415 (a list of runs does without it)

    if as_json:
        notes = list(after.rescore_notes)
        print_runs({"before": before, "after": after, "saved_as": saved, "notes": notes})
        return
    kept = f"saved as {saved}" if saved else "not saved; --apply saves it as a new run"
    if quiet:
        name = before.record.suite
        say(f"{name}: {format_score(after.score)}, before {format_score(before.score)}; {kept}")
        return
    say(*summary_lines(after))
    by = before.record.score_formula
    say(f"\nBefore: {format_score(before.score)} (formula: {by})", wrap=True)
    say(f"{kept[0].upper()}{kept[1:]}", wrap=True)


def _parse_config(given: list[str] | None) -> Mapping[str, Any] | None:

    if given is None:
        return None
    config = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not key or not equals:
            raise InvalidInput(f"--config {each} has no value", hint="write KEY=VALUE")
        try:
            config[key] = json.loads(text)
        except ValueError:
            config[key] = text
    return config


def _describe_rescoring(
    found: Rescoring, labels: Mapping[str, str], *, applied: bool
) -> list[str | Table]:
    lines: list[str | Table] = [f"{found.challenge} by {found.rule}"]
    lines.append(_count_changed(found, applied=applied))
    if found.undefined:
        lines.append(f"{found.undefined:,} without a score:")
        lines += [
            f"  {each.attempt} of {each.agent}: {clean_line(each.reason)}"
            for each in found.reasons[:5]
        ]
    if applied:
        return [*lines, f"Done; later attempts are scored so too (version {found.version[:12]})."]
    if not found.moved:
        return [*lines, "No agent would move.", "", _NOTHING_DONE]
    lines += [
        f"{format_count(found.moved, 'agent')} would move:",
        "",
        _make_move_table(found.moves[:_MOVES_SHOWN], labels),
    ]
    if found.moved > _MOVES_SHOWN:
        lines.append(f"... and {found.moved - _MOVES_SHOWN:,} more; --json shows up to 100")
    return [*lines, "", _NOTHING_DONE]


def _count_changed(found: Rescoring, *, applied: bool) -> str:
    of_all = format_count(found.attempts, "attempt")
    return f"{found.changed:,} of {of_all} {'changed' if applied else 'would change'}"


def _count_moved(found: Rescoring) -> str:
    return format_count(found.moved or 0, "agent")


def _make_move_table(moves: tuple[Move, ...], labels: Mapping[str, str]) -> Table:
    heads = ("AGENT", "RANK", "SCORE", "WHY")
    rows = [
        (
            labels.get(each.agent, each.agent),
            f"{_format_rank(each.before)} -> {_format_rank(each.after)}",
            f"{_format_place(each.before)} -> {_format_place(each.after)}",
            _format_terms(each.after),
        )
        for each in moves
    ]
    return Table(heads, rows, wrap=("WHY",), drop=("WHY",))


def _format_place(place: BoardPlace | None) -> str:
    return format_digits(None if place is None else place.score)


def _format_rank(place: BoardPlace | None) -> str:
    return "-" if place is None else str(place.rank)


def _format_terms(place: BoardPlace | None) -> str:
    terms = place.terms if place is not None else {}
    parts = [f"{shorten_line(text)} = {format_number(value)}" for text, value in terms.items()]
    return ", ".join(parts) or "-"
