"""`tally agent`: what an agent is called."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from tallymark.cli.app_session import Db
from tallymark.text import say

app = typer.Typer(no_args_is_help=True, help="Agents: what they are called.")
HandleArgument = Annotated[str, typer.Argument(metavar="HANDLE", show_default=False)]


@app.command()
def name(
    handle: HandleArgument,
    shown: Annotated[
        str, typer.Argument(metavar="NAME", help="As boards show it.", show_default=False)
    ],
    db: Db = None,
) -> None:
    """Name an agent: boards show the name, with the handle beside it."""
    from tallymark.app.app import App

    with closing(App(db)) as application:
        application.store.agents.name_agent(handle, shown)
    say(f"{handle} is shown as {shown}")
