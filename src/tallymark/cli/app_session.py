"""The application that a command works with, and the options that say how it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tallymark.app.competition import Competition

Db = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="Where results are kept; else TALLY_DB, else .tally/tally.db."
    ),
]

InsecureLocal = Annotated[
    bool,
    typer.Option(
        "--insecure-local",
        help="Run untrusted code without a sandbox. Only for code that you wrote.",
    ),
]
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


@contextmanager
def open_competition(
    db: str | None, *, insecure_local: bool = False, judge_model: str | None = None
) -> Iterator[Competition]:
    """Challenges and attempts over a store."""
    from tallymark.app.app import App

    with closing(App(db)) as app:
        competition = app.competition(insecure_local=insecure_local, judge_model=judge_model)
        try:
            yield competition
        finally:
            competition.close()
