"""Options that several commands share, with the checks that belong to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tallymark.engine.engine_choice import MOST_WORKERS, EngineChoice, choose_engine
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    pass


class CommandGroup(TyperGroup):
    """A group whose help wraps the lines of its commands instead of cutting them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (its signature)
        """Write a line for each command."""
        rows = [(name, each.get_short_help_str(limit=1000)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Database to use. Default: TALLY_DB, or the nearest .tally/tally.db.",
    ),
]

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL|NAME",
        help="Use this server, with the key saved by `tally login`. Default: TALLY_SERVER.",
    ),
]

InsecureLocal = Annotated[
    bool,
    typer.Option(
        "--insecure-local",
        help="Run untrusted code without a sandbox. Only for code you trust.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most N.")]
Live = Annotated[bool, typer.Option("--live", help="Ignore a freeze of the board. For organisers.")]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="quiet logs errors only; text and json log requests too. Default: TALLY_LOG, quiet.",
    ),
]
Reason = Annotated[
    str, typer.Option("--reason", help="Reason, stored in the log.", show_default=False)
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--judge", metavar="MODEL", help="Model that judges, for challenges judged by a model."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the last line.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Tenant to use.")]
FieldMapping = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=KEY",
        help="Map a field to a key of your records: output=reply, input=ask.text. Repeatable.",
    ),
]


def float_option(*, positive: bool = False, **facts: Any) -> Any:
    """Like `typer.Option`, but refuse `nan`, which passes every range check.

    `positive` also refuses 0.
    """
    return typer.Option(callback=_refuse_zero if positive else _refuse_nan, **facts)


def _refuse_zero(value: float | None) -> float | None:
    if value == 0:
        raise typer.BadParameter("it must be more than 0")
    return _refuse_nan(value)


def _refuse_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Run on several workers: local, ray or ray:ADDRESS. Default: TALLY_ENGINE.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=MOST_WORKERS,
        help="Number of workers. Default: one per core.",
    ),
]


def choose_where(
    engine: str | None, workers: int | None, *, is_remote: bool
) -> EngineChoice | None:
    """Choose the engine for work on a database; a server has workers of its own."""
    if not is_remote:
        return choose_engine(engine, workers)
    if engine or workers:
        flag = "--engine" if engine else "--workers"
        hint = "its own workers do the work; leave it out, or work on a database: --db"
        raise InvalidInput(f"{flag} is not for a server", hint=hint)
    return None


def choose_for_cases(
    engine: str | None, workers: int | None, alone: Mapping[str, object]
) -> EngineChoice | None:
    """Choose the engine for cases; options in `alone` need all cases in one process."""
    given = [flag for flag, value in alone.items() if value is not None]
    if given and not engine and not workers:
        return None
    choice = choose_engine(engine, workers)
    if choice is not None and given:
        hint = "leave it out, or --engine and --workers"
        raise InvalidInput(f"{given[0]} needs all cases in one process", hint=hint)
    return choice
