"""`tally export`: stored data as Parquet tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.cli.options import CommandGroup, Db, Json, Live, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, RunNotes, write_table
from tallymark.text import format_count, say

if TYPE_CHECKING:
    from tallymark.service.exports import Exports

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="File to write: NAME.parquet.")
]
Filter = Annotated[
    str, typer.Option("--filter", help="Filter of traces, as for `tally traces list`.")
]


@app.command()
def attempts(
    challenge: Annotated[str, typer.Argument(help="Challenge to export.")],
    output: Output,
    live: Live = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Export the attempts at a challenge with their scores, one per row, oldest first."""
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
        typer.Argument(metavar="[RUN]...", help="Runs, by id or `latest`. Default: all."),
    ] = None,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Export the results of runs, one case per row."""
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
    """Export stored traces with their spans, one per row."""
    _write(output, TRACES, db, server, as_json, lambda exports: exports.traces(filter_))


@app.command()
def scores(
    output: Output,
    filter_: Filter = "",
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Export the scores of traces by rules and people, and of cases by people, one per row."""
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
