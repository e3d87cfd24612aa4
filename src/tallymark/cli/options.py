"""Options that several commands share, with the checks that belong to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallymark.engine.engine_choice import MOST_WORKERS, EngineChoice, choose_engine
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    pass

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="Where results are kept; else TALLY_DB, else the nearest .tally/tally.db.",
    ),
]

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL|NAME",
        help="Ask this server instead, by the key of `tally login`; else TALLY_SERVER.",
    ),
]

InsecureLocal = Annotated[
    bool,
    typer.Option(
        "--insecure-local",
        help="Run untrusted code without a sandbox. Only for code that you wrote.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many.")]
Live = Annotated[
    bool, typer.Option("--live", help="Past a freeze: for organisers, not for the public.")
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="FORMAT",
        help="quiet: mistakes alone; text or json: requests too. Else TALLY_LOG, else quiet.",
    ),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the log.", show_default=False)]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge", metavar="MODEL", help="The model for challenges judged by a model."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the last line.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Of this tenant.")]
FieldMapping = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=KEY",
        help="A field of your own records: output=reply, input=ask.text. Repeat it.",
    ),
]


def float_option(*, positive: bool = False, **facts: Any) -> Any:
    """As `typer.Option`, but `nan` is refused: it lies in every range, and no bound stops it.

    With `positive`, so is 0.
    """
    return typer.Option(callback=_refuse_zero if positive else _refuse_nan, **facts)


def _refuse_zero(value: float | None) -> float | None:
    if value == 0:
        raise typer.BadParameter("it must be more than 0")
    return _refuse_nan(value)


def _refuse_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Workers for much work: local, ray or ray:ADDRESS; else TALLY_ENGINE.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=MOST_WORKERS,
        help="How many workers; else as many as there are cores.",
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
    """Where cases are asked; `alone` are options for which one process must see them all."""
    given = [flag for flag, value in alone.items() if value is not None]
    if given and not engine and not workers:
        return None
    choice = choose_engine(engine, workers)
    if choice is not None and given:
        hint = "leave it out, or --engine and --workers"
        raise InvalidInput(f"{given[0]} needs all cases in one process", hint=hint)
    return choice
