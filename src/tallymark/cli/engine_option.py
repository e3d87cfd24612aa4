"""Where bulk work runs: the options of every command that does some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from tallymark.engine.engine_choice import MOST_WORKERS, EngineChoice, choose_engine
from tallymark.errors import InvalidInput

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
