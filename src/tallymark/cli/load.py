"""`tally load`: what other tools wrote down, into the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tallymark.cli.app_session import Db, Server, open_desk
from tallymark.cli.progress import show_progress
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, TraceError
from tallymark.text import format_count, say


class _Kinds(TyperGroup):
    """What can be loaded; a file in its place is answered with the command that was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and Path(args[0]).exists():
            raise InvalidInput(
                f"{args[0]} is a file, not a kind of what can be loaded",
                hint=f"its traces: tally load traces {args[0]}",
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Kinds, no_args_is_help=True, help="Load what other tools wrote down.")


@app.callback()
def _load() -> None:
    """Load what other tools wrote down."""


@app.command()
def traces(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files or folders of traces, of any format that tally score reads.",
        ),
    ],
    format_: Annotated[
        str | None, typer.Option("--format", help="The format, where it cannot be told.")
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Go on after records that cannot be read.")
    ] = False,
    db: Db = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Keep the traces of files. Loading the same again adds nothing."""
    from tallymark.traces import read_traces

    broken: list[TraceError] = []
    with open_desk(db, server) as desk, show_progress("loading") as update:
        found = read_traces(
            list(files),
            format=format_,
            skip_broken=skip_broken,
            on_broken=broken.append,
            on_progress=update,
        )
        count = desk.traces.load(found)
    if as_json:
        problems = [problem.to_dict() for each in broken for problem in each.problems]
        print_json({"traces": count, "broken": problems})
        return
    for each in broken:
        say(f"tally: {each}", err=True)
    if not count and broken:
        raise InvalidInput("nothing could be loaded")
    say(f"loaded {format_count(count, 'trace')}; see them with: tally traces list")
