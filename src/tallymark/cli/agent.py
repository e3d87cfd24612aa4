"""`tally agent` and `tally log`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallymark.cli.options import CommandGroup, Db, Json, Limit, Reason, Server
from tallymark.cli.session import open_resources
from tallymark.cli.streams import print_json
from tallymark.text import Table, clean_line, format_moment, say

if TYPE_CHECKING:
    from tallymark.service.agents import Agent
    from tallymark.service.audit import LogEntry

app = typer.Typer(cls=CommandGroup, no_args_is_help=True)
AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", show_default=False)]


@app.command()
def disqualify(
    agent: AgentArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: remove an agent from all boards and ratings, and bar it from competing."""
    with open_resources(db, server) as tally:
        done = tally.agents.disqualify(agent, reason=reason)
    _print(done, as_json)


@app.command()
def reinstate(
    agent: AgentArgument,
    reason: Reason,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """For organisers: undo a disqualification."""
    with open_resources(db, server) as tally:
        done = tally.agents.reinstate(agent, reason=reason)
    _print(done, as_json)


def _print(found: Agent, as_json: bool) -> None:
    agent = found.handle
    if as_json:
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
        str, typer.Argument(metavar="NAME", help="Name that boards show.", show_default=False)
    ],
    db: Db = None,
    server: Server = None,
) -> None:
    """Name an agent. Boards show the name next to the handle."""
    with open_resources(db, server) as tally:
        tally.agents.change(handle, name=shown)
    say(f"{handle} is shown as {shown}")


def log(
    challenge: Annotated[str | None, typer.Option(help="Only entries of this challenge.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only entries of this agent.")] = None,
    limit: Limit = 50,
    db: Db = None,
    server: Server = None,
    as_json: Json = False,
) -> None:
    """Show what organisers and admins did, and why, newest first."""
    with open_resources(db, server) as tally:
        found = list(islice(tally.audit.list(challenge=challenge, agent=agent), limit))
    if as_json:
        print_json({"entries": msgspec.to_builtins(found)})
    elif found:
        heads = ("WHEN (UTC)", "WHAT", "CHALLENGE", "ATTEMPT", "AGENT", "BY", "WHY")
        rows = [_make_row(each) for each in found]
        say(Table(heads, rows, wrap=("WHY",), drop=("BY", "ATTEMPT", "WHEN (UTC)")))
    else:
        say("the log is empty")


def _make_row(entry: LogEntry) -> tuple[str, ...]:
    # Of a challenge's entry the other columns say what was meant, unless it was renamed.
    shows_facts = entry.challenge is None or "before" in (entry.note or {})
    why = ": ".join(filter(None, (entry.facts if shows_facts else "", entry.reason)))
    return (
        format_moment(entry.at),
        entry.event,
        entry.challenge or "-",
        entry.attempt or "-",
        entry.agent or "-",
        entry.actor,
        clean_line(why) if why else "-",
    )
