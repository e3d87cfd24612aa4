"""`tally agent`: what an agent is called; disqualifying and reinstating, for organisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, Reason, Server, open_resources
from tallymark.cli.streams import print_json
from tallymark.text import say

if TYPE_CHECKING:
    from tallymark.service.agents import Agent

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
    with open_resources(db, server) as tally:
        done = tally.agents.disqualify(agent, reason=reason)
    _print(done, as_json)


@app.command()
def reinstate(
    agent: AgentArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: JsonOption = False,
) -> None:
    """For organisers: let an agent compete, as if it had never been disqualified."""
    with open_resources(db, server) as tally:
        done = tally.agents.reinstate(agent, reason=reason)
    _print(done, as_json)


def _print(found: Agent, as_json: bool) -> None:
    agent = found.handle
    if as_json:
        import msgspec

        print_json({"agent": msgspec.to_builtins(found)})
    elif found.disqualified_at is not None:
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
    with open_resources(db, server) as tally:
        tally.agents.change(handle, name=shown)
    say(f"{handle} is shown as {shown}")
