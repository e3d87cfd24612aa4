"""`tally export`: what is kept, as tables for DuckDB, Polars, Spark and others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.options import Db, Json, Live, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, RunNotes, write_table
from tallymark.text import format_count, say

if TYPE_CHECKING:
    from tallymark.service.exports import Exports

app = typer.Typer(no_args_is_help=True, help="Write what is kept as Parquet, for other tools.")

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The file: NAME.parquet.")
]
Filter = Annotated[
    str, typer.Option("--filter", help="Which traces, as `tally traces list` takes it.")
]


@app.callback()
def _export() -> None:
    """Write what is kept as Parquet, for other tools."""


@app.command()
def attempts(
    challenge: Annotated[str, typer.Argument(help="The challenge.")],
    output: Output,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Attempts at a challenge with their scores, one a row, oldest first."""
    _write(
        output,
        ATTEMPTS,
        db,
        server,
        as_json,
        lambda exports: exports.attempts(challenge, live=live),
    )


@app.command()
def results(
    output: Output,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="Runs by their ids or `latest`; all without any."),
    ] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Results of runs, one case a row."""
    notes = RunNotes()
    _write(
        *(output, RESULTS, db, server, as_json),
        lambda exports: exports.results(runs or (), notes.gather),
        notes.write,
    )


@app.command()
def traces(
    output: Output,
    filter_: Filter = "",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Production traces with their spans, one a row."""
    _write(output, TRACES, db, server, as_json, lambda exports: exports.traces(filter_))


@app.command()
def scores(
    output: Output,
    filter_: Filter = "",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Scores of traces by rules and people, and people's scores of cases, one a row."""
    _write(output, SCORES, db, server, as_json, lambda exports: exports.scores(filter_))


def _write(  # noqa: PLR0913, PLR0917 (what every kind is told)
    path: Path,
    table: Any,
    db: str | None,
    server: str | None,
    as_json: bool,
    find: Callable[[Exports], Iterable[Any]],
    write_notes: Callable[[], dict[str, str]] = dict,
) -> None:

    with open_resources(db, server) as tally:
        count = write_table(path, table, find(tally.exports), write_notes)
    if as_json:
        print_json({"file": str(path), table.name: count})
        return
    say(f"wrote {format_count(count, table.name.removesuffix('s'))} to {path}", wrap=True)
