"""The store that a command works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tallymark.app import App

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="Where runs are kept; else TALLY_DB, else .tally/tally.db."
    ),
]


@contextmanager
def opened(db: str | None) -> Iterator[App]:
    """The application over a store."""
    from tallymark.app import App

    app = App(db)
    try:
        yield app
    finally:
        app.close()
