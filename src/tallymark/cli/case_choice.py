"""The options that choose cases: `--only`, `--tag` and `--failed-of`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput
from tallymark.text import say, shorten_line

if TYPE_CHECKING:
    from tallymark.service.resources import Resources
    from tallymark.suites.chosen_cases import CaseChoice
    from tallymark.suites.suite_definition import SuiteDefinition

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB", help="Only evals or cases with this name: math, 'qa*', 'qa[7]'. Repeatable."
    ),
]
Tag = Annotated[
    list[str] | None, typer.Option(metavar="TAG", help="Only evals with this tag. Repeatable.")
]
FailedOf = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Only cases that failed or could not run in this run."),
]


def read_choice(
    tally: Resources,
    only: list[str] | None,
    tag: list[str] | None,
    failed_of: str | None,
    *,
    as_json: bool,
) -> CaseChoice | None:
    """Read the chosen cases; None for all. Exits with 0 if no case of --failed-of failed."""
    if not (only or tag or failed_of):
        return None
    from tallymark.suites.chosen_cases import CaseChoice  # noqa: PLC0415 (loads all checks)

    run, failed = None, list[str]()
    if failed_of is not None:
        run = tally.runs.get(failed_of).id
        missed = (tally.runs.cases(run, status) for status in ("failed", "error"))
        failed = sorted({each.case for found in missed for each in found})
        if not failed:
            say(f"tally: nothing failed in the run {run}, so there is nothing to run", err=True)
            if as_json:
                print_json({"runs": []})
            raise typer.Exit(0)
    return CaseChoice(tuple(only or ()), tuple(tag or ()), run, tuple(failed))


def tell_missing(choice: CaseChoice, definition: SuiteDefinition) -> None:
    """Report the failed cases that are no longer in the suite."""
    keys = {case.key for case in definition.cases}
    gone = [key for key in choice.failed if key not in keys]
    if 0 < len(gone) < len(choice.failed):
        some = f"{len(gone):,} of the {len(choice.failed):,} cases that failed"
        named = shorten_line(", ".join(gone), 80)
        say(f"tally: {some} in {choice.failed_of} are not in the suite now: {named}", err=True)


def refuse_choice(given: dict[str, object]) -> None:
    """Refuse options that choose cases for a resumed run, which has its cases."""
    for option, value in given.items():
        if value:
            message = (
                f"{option} is for new runs: a resumed run keeps the cases that it was started with"
            )
            raise InvalidInput(message, hint=f"leave out {option}, or start a new run")
