"""`tally run --remote`: a suite that a server runs, as it is seen from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from tallymark.errors import InvalidInput, Place, Problem, TallymarkError, WorkFailed
from tallymark.text import format_count, format_money, format_share, say

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.cli.run import PlainWatch
    from tallymark.runs.record import RunRecord
    from tallymark.runs.run import Run
    from tallymark.service.resources import Resources
    from tallymark.service.suite_runs import RunOptions
    from tallymark.suites.suite_definition import SuiteDefinition


def refuse_for_remote(given: Mapping[str, object]) -> None:
    """Refuses options of which a server knows nothing."""
    for option, value in given.items():
        if value is not None and value != []:
            hint = "leave out one of them; without --remote it runs here, and is kept there"
            raise InvalidInput(f"--remote does not go with {option}", hint=hint)


def run_there(  # noqa: PLR0913, PLR0917 (all that a run needs)
    tally: Resources,
    there: str,
    suite: Path,
    definition: SuiteDefinition,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[Run]:
    """Have the server run the suite, show its progress, and return the runs when they are over."""
    limits = options.limits
    with name_file(suite):
        started = tally.runs.create(
            suite=suite.read_text(encoding="utf-8"),
            models=models,
            name=definition.name,
            limit=limits.cases,
            epochs=limits.epochs,
            threads=limits.threads,
            timeout=limits.timeout,
            budget=limits.budget,
            judge=options.judge,
            vars=dict(options.values) or None,
        )
    shown = f"tally show {started.run.id}{there}"
    try:
        return [_follow(tally, tally.runs.read_record(each.id), watch) for each in started.runs]
    except KeyboardInterrupt:
        for record in started.runs:
            _cancel(tally, record)
        say(f"\ntally: stopped, and stopped there; what is done: {shown}", err=True)
        raise typer.Exit(130) from None
    except WorkFailed as error:
        raise WorkFailed(str(error), hint=f"the run may go on there: {shown}") from None


@contextmanager
def name_file(path: Path) -> Iterator[None]:
    """Name the file where a server names a line of the suite that was sent."""
    try:
        yield
    except TallymarkError as error:
        error.problems = tuple(_place(each, path) for each in error.problems)
        raise


def _place(problem: Problem, path: Path) -> Problem:
    place = problem.place
    if place is None or place.line is None:
        return problem
    at = Place(str(path), place.line, place.column, place.length, place.text)
    return Problem(problem.message, at, problem.hint)


def _follow(tally: Resources, record: RunRecord, watch: PlainWatch) -> Run:
    from tallymark.runs.tally import Tally

    watch.started(record, Tally(), None)
    try:
        status = "queued"
        while status in ("queued", "running"):
            # A proxy may end the stream before the run has ended.
            for event in tally.runs.events(record.id):
                watch.progressed(_count(event.data), _describe(event.data))
            status = tally.runs.get(record.id).status
        done = tally.runs.load(record.id, traces=True)
        counted = Tally()
        for result in done.results:
            counted.add(result)
            watch.moved(result, counted)
    finally:
        watch.ended(record)
    return done


def _count(now: Mapping[str, Any]) -> int:
    return int(now["passed"] + now["failed"] + now["errors"])


def _describe(now: Mapping[str, Any]) -> str:
    """`80.0% passed, 2 errors, $0.0177`."""
    ran = now["passed"] + now["failed"]
    parts = [f"{format_share(now['passed'] / ran)} passed"] if ran else []
    parts += [format_count(now["errors"], "error")] if now["errors"] else []
    parts += [format_money(now["cost"])] if now["cost"] else []
    return ", ".join(parts) or now["status"]


def _cancel(tally: Resources, record: RunRecord) -> None:
    try:
        tally.runs.cancel(record.id)
    except InvalidInput:  # it is over
        return
    except WorkFailed as error:
        say(f"tally: {record.id} could not be stopped there: {error}", err=True)
