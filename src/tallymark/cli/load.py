"""`tally load`: what other tools wrote down, or `tally export`, into the store."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, FieldMapping, Json, Server
from tallymark.cli.progress import show_progress
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.errors import InvalidInput, TraceError
from tallymark.parquet_trial import try_parquet
from tallymark.text import format_count, say
from tallymark.traces import read_traces
from tallymark.traces.flat_records import read_field_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.service.resources import Resources
    from tallymark.service.traces import LoadedTraces
    from tallymark.traces import Trace


class _Kinds(CommandGroup):
    """Kinds of data to load. A file name instead of a kind gets a hint."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and Path(args[0]).exists():
            raise InvalidInput(
                f"{args[0]} is a file, not a kind of what can be loaded",
                hint=f"its traces: tally load traces {args[0]}",
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Kinds, no_args_is_help=True)


@app.command()
def traces(  # noqa: PLR0913, PLR0917 (the options of a command)
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files or folders of traces, in any format that tally score or export knows.",
        ),
    ],
    format_: Annotated[
        str | None, typer.Option("--format", help="Format of the files, if it is not recognised.")
    ] = None,
    fields: FieldMapping = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Skip records that cannot be read.")
    ] = False,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Load traces from files. Loading the same traces again adds nothing."""
    if any(map(_is_table, files)):
        _load_tables(files, db, server, as_json)
        return

    broken: list[TraceError] = []
    with open_resources(db, server) as tally, show_progress("loading") as update:
        found = read_traces(
            list(files),
            format=format_,
            fields=read_field_map(fields or ()),
            skip_broken=skip_broken,
            on_broken=broken.append,
            on_progress=update,
        )
        done = _load_all(tally, found)
    if as_json:
        _print_traces(done, [problem.to_dict() for each in broken for problem in each.problems])
        return
    for each in broken:
        say(f"tally: {each}", err=True)
    if not done.traces and broken:
        raise InvalidInput("nothing could be loaded")
    _tell_traces(done)


def _is_table(path: Path) -> bool:
    """Check for a Parquet file, or a folder of Parquet files as Spark writes it."""
    if path.suffix == ".parquet":
        return True
    found = [each for each in path.glob("*") if not each.name.startswith((".", "_"))]
    return bool(found) and all(each.suffix == ".parquet" for each in found)


def _load_tables(files: list[Path], db: str | None, server: str | None, as_json: bool) -> None:
    """Traces that `tally export traces` wrote: each file is seen whole before any is loaded."""
    from tallymark.service.loads import open_traces  # noqa: PLC0415 (loads SQLAlchemy)

    _try_tables("traces", files)
    with open_resources(db, server) as tally:
        done = _load_all(tally, chain.from_iterable([open_traces(each) for each in files]))
    if as_json:
        _print_traces(done, [])
    else:
        _tell_traces(done)


def _try_tables(kind: str, files: list[Path]) -> None:
    """Read the files in another process first: some damaged files crash the reader."""
    from tallymark.service.tables import TABLES  # noqa: PLC0415 (loads SQLAlchemy)

    for each in files:
        try_parquet(each, TABLES[kind].columns)


def _load_all(tally: Resources, traces: Iterable[Trace]) -> LoadedTraces:
    """Load traces, some at a time."""
    from tallymark.service.traces import LoadedTraces, pack_traces  # noqa: PLC0415 (loads SQLAlchemy)

    loaded = [msgspec.structs.asdict(tally.traces.load(lines)) for lines in pack_traces(traces)]
    names = LoadedTraces.__struct_fields__
    return LoadedTraces(**{name: sum(each[name] for each in loaded) for name in names})


def _print_traces(done: LoadedTraces, broken: list[dict[str, Any]]) -> None:

    print_json({**msgspec.structs.asdict(done), "broken": broken})


def _tell_traces(done: LoadedTraces) -> None:
    told = format_count(done.new, "trace")
    if done.changed:
        told += f" and {format_count(done.changed, 'new version')} of what was there"
    say(f"loaded {told}{_tell_known(done.known)}; see them with: tally traces list", wrap=True)


File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Parquet file or folder, written by `tally export` or in the same format.",
    ),
]


@app.command()
def attempts(
    file: File,
    challenge: Annotated[
        str | None,
        typer.Option(
            "--challenge", help="Load into this challenge instead of the one in the file."
        ),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Load ended attempts with their board. They do not change ratings."""
    _try_tables("attempts", [file])
    with open_resources(db, None) as tally:
        done = tally.loads.attempts(file, challenge)
    if as_json:
        print_json({"attempts": done.new, "known": done.known, "left_out": done.left_out})
        return
    say(f"loaded {format_count(done.new, 'attempt')}{_tell_known(done.known)}", wrap=True)
    if done.left_out:
        say(
            f"tally: left out {format_count(done.left_out, 'attempt')} that had not ended", err=True
        )


@app.command()
def results(file: File, db: Db = None, as_json: Json = False) -> None:
    """Load runs with their results. Nothing is run."""
    _try_tables("results", [file])
    with open_resources(db, None) as tally:
        done = tally.loads.results(file)
    if as_json:
        print_json(
            {"runs": done.runs, "results": done.results, "known": done.known, "untold": done.untold}
        )
        return
    told = f"{format_count(done.runs, 'run')} with {format_count(done.results, 'result')}"
    say(f"loaded {told}{_tell_known(done.known)}", wrap=True)
    if done.untold:
        count = format_count(done.untold, "run")
        lost = "lost suite and formula to the tool that wrote the file; scored by success_pct"
        say(f"tally: {count} {lost}", err=True)


@app.command()
def scores(file: File, db: Db = None, as_json: Json = False) -> None:
    """Load scores of traces and cases that are in the store."""
    _try_tables("scores", [file])
    with open_resources(db, None) as tally:
        done = tally.loads.scores(file)
    if as_json:
        print_json({"scores": done.new, "known": done.known})
        return
    say(f"loaded {format_count(done.new, 'score')}{_tell_known(done.known)}", wrap=True)


def _tell_known(known: int) -> str:
    return f"; {known:,} {'was' if known == 1 else 'were'} there already" if known else ""
