"""`tally agent`: what an agent is called; disqualifying and reinstating, for organisers."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Annotated

import typer

from tallymark.cli.app_session import Db, Reason
from tallymark.cli.streams import print_json
from tallymark.text import say

app = typer.Typer(no_args_is_help=True, help="Agents: name, disqualify, reinstate.")
AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def disqualify(
    agent: AgentArgument, reason: Reason, db: Db = None, as_json: JsonOption = False
) -> None:
    """For organisers: take an agent off all boards and ratings; it may not compete."""
    from tallymark.app.app import App

    with closing(App(db)) as app:
        app.store.disqualifications.disqualify(agent, at=time.time(), reason=reason)
    _tell(agent, as_json, disqualified=True)


@app.command()
def reinstate(
    agent: AgentArgument, reason: Reason, db: Db = None, as_json: JsonOption = False
) -> None:
    """For organisers: let an agent compete, as if it had never been disqualified."""
    from tallymark.app.app import App

    with closing(App(db)) as app:
        app.store.disqualifications.reinstate(agent, at=time.time(), reason=reason)
    _tell(agent, as_json, disqualified=False)


def _tell(agent: str, as_json: bool, *, disqualified: bool) -> None:
    if as_json:
        print_json({"agent": agent, "disqualified": disqualified})
    elif disqualified:
        say(f"{agent} is disqualified. Undo it with: tally agent reinstate {agent} --reason TEXT")
    else:
        say(f"{agent} is not disqualified.")


@app.command()
def name(
    handle: AgentArgument,
    shown: Annotated[
        str, typer.Argument(metavar="NAME", help="As boards show it.", show_default=False)
    ],
    db: Db = None,
) -> None:
    """Name an agent: boards show the name, with the handle beside it."""
    from tallymark.app.app import App

    with closing(App(db)) as application:
        application.store.agents.name_agent(handle, shown, at=time.time())
    say(f"{handle} is shown as {shown}")
