"""Where bulk work runs: the options of every command that does some."""

from __future__ import annotations

from typing import Annotated

import typer

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
    typer.Option("--workers", min=1, help="How many workers; else as many as there are cores."),
]
