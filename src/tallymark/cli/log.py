"""`tally log`: what was done to challenges, attempts and agents, by whom and why."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from tallymark.cli.app_session import Db, Limit, Server, open_resources
from tallymark.cli.streams import print_json
from tallymark.text import Table, clean_line, format_moment, say

if TYPE_CHECKING:
    from tallymark.service.audit import LogEntry


def log(
    challenge: Annotated[str | None, typer.Option(help="Only of this challenge.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    limit: Limit = 50,
    db: Db = None,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what organisers and admins did, and why; newest first."""
    with open_resources(db, server) as tally:
        found = list(islice(tally.audit.list(challenge=challenge, agent=agent), limit))
    if as_json:
        import msgspec

        print_json({"entries": msgspec.to_builtins(found)})
    elif found:
        heads = ("WHEN (UTC)", "WHAT", "CHALLENGE", "ATTEMPT", "AGENT", "BY", "WHY")
        rows = [_make_row(each) for each in found]
        say(Table(heads, rows, wrap=("WHY",), drop=("BY", "ATTEMPT", "WHEN (UTC)")))
    else:
        say("nothing is in the log")


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
