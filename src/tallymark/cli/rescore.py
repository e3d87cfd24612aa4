"""`tally rescore`: a run seen by another formula or another suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallymark.cli.database import Db, opened
from tallymark.cli.output import print_json
from tallymark.errors import InvalidInput


def rescore(
    run: Annotated[str, typer.Argument(metavar="RUN", help="An id, its beginning, or latest.")],
    formula: Annotated[str | None, typer.Option(help="The formula to score by.")] = None,
    suite: Annotated[
        Path | None, typer.Option(help="A suite whose checks and formula to use instead.")
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep the result as a new run.")] = False,
    db: Db = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Score a run again without asking a model: by another formula, or another suite."""
    from tallymark.app import RunOptions
    from tallymark.suites.file.loading import load_suite
    from tallymark.suites.reports import run_document, summary

    if formula is None and suite is None:
        raise InvalidInput("give --formula or --suite", hint='as in --formula "success_pct"')
    with opened(db) as app:
        other = app.resolved(load_suite(suite), RunOptions()) if suite is not None else None
        before, after = app.rescored(run, formula=formula, suite=other)
        saved = app.save_as_new(after) if save else None
    if as_json:
        document = {"before": run_document(*before), "after": run_document(*after)}
        print_json(document | {"saved_as": saved.id if saved else None})
        return
    typer.echo(summary(*after))
    typer.echo(f"\nBefore: {_score(before[0].score)} (formula: {before[0].formula})")
    typer.echo(f"Saved as {saved.id}" if saved else "Not saved; --save keeps it as a new run")


def _score(score: float | None) -> str:
    from tallymark.formula.explain import show

    return "no score" if score is None else show(score)
