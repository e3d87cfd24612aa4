"""`tally agent`: what an agent is called; disqualifying and reinstating, for organisers."""

from __future__ import annotations

from typing import Annotated

import typer

from tallymark.cli.app_session import Db, Reason, Server, open_desk
from tallymark.cli.streams import print_json
from tallymark.text import say

app = typer.Typer(no_args_is_help=True, help="Agents: name, disqualify, reinstate.")
AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command()
def disqualify(
    agent: AgentArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """For organisers: take an agent off all boards and ratings; it may not compete."""
    with open_desk(db, server) as desk:
        desk.organising.disqualify(agent, reason)
    _tell(agent, as_json, disqualified=True)


@app.command()
def reinstate(
    agent: AgentArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """For organisers: let an agent compete, as if it had never been disqualified."""
    with open_desk(db, server) as desk:
        desk.organising.reinstate(agent, reason)
    _tell(agent, as_json, disqualified=False)


def _tell(agent: str, as_json: bool, *, disqualified: bool) -> None:
    if as_json:
        print_json({"agent": agent, "disqualified": disqualified})
    elif disqualified:
        say(
            f"{agent} is disqualified. Undo it with: tally agent reinstate {agent} --reason TEXT",
            wrap=True,
        )
    else:
        say(f"{agent} is not disqualified.")


@app.command()
def name(
    handle: AgentArgument,
    shown: Annotated[
        str, typer.Argument(metavar="NAME", help="As boards show it.", show_default=False)
    ],
    db: Db = None,
    server: Server = None,
) -> None:
    """Name an agent: boards show the name, with the handle beside it."""
    with open_desk(db, server) as desk:
        desk.organising.name_agent(handle, shown)
    say(f"{handle} is shown as {shown}")
