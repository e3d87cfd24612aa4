"""`tally run --remote`: a suite that a server runs, as it is seen from here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.text import format_count, format_money, format_share, say

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.cli.run import PlainWatch
    from tallymark.desk.desk import Desk
    from tallymark.desk.runs import StartedRuns
    from tallymark.runs.record import RunRecord
    from tallymark.runs.run import Run
    from tallymark.service.runs import RunOptions
    from tallymark.suites.suite_definition import SuiteDefinition


def refuse_for_remote(given: Mapping[str, object]) -> None:
    """Refuses options of which a server knows nothing."""
    for option, value in given.items():
        if value is not None and value != []:
            hint = "leave out one of them; without --remote it runs here, and is kept there"
            raise InvalidInput(f"--remote does not go with {option}", hint=hint)


def run_there(
    desk: Desk,
    definition: SuiteDefinition,
    suite: Path,
    models: list[str],
    options: RunOptions,
    watch: PlainWatch,
) -> list[Run]:
    """Has the suite run, tells how far it is, and gives the runs when they are over."""
    limits = options.limits
    wish = {
        "epochs": limits.epochs,
        "limit": limits.cases,
        "threads": limits.threads,
        "timeout": limits.timeout,
        "budget": limits.budget,
        "judge": options.judge,
        "vars": dict(options.values) or None,
    }
    told = {name: value for name, value in wish.items() if value is not None}
    started = desk.runs.start(suite, models, name=definition.name, wish=told)
    try:
        return [_follow(desk, started, record, watch) for record in started.records]
    except KeyboardInterrupt:
        for record in started.records:
            _cancel(started, record)
        shown = f"tally show {started.records[0].id}{desk.there}"
        say(f"\ntally: stopped, and stopped there; what is done: {shown}", err=True)
        raise typer.Exit(130) from None
    except WorkFailed as error:
        shown = f"tally show {started.records[0].id}{desk.there}"
        raise WorkFailed(str(error), hint=f"the run may go on there: {shown}") from None


def _follow(desk: Desk, started: StartedRuns, record: RunRecord, watch: PlainWatch) -> Run:
    from tallymark.runs.tally import Tally

    watch.started(record, Tally(), None)
    try:
        for now in started.follow(record.id):
            watch.progressed(_count(now), _describe(now))
        done = desk.runs.load(record.id, traces=True)
        tally = Tally()
        for result in done.results:
            tally.add(result)
            watch.moved(result, tally)
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


def _cancel(started: StartedRuns, record: RunRecord) -> None:
    try:
        started.cancel(record.id)
    except InvalidInput:  # it is over
        return
    except WorkFailed as error:
        say(f"tally: {record.id} could not be stopped there: {error}", err=True)
