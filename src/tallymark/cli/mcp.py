"""`tally mcp`: the tools that agents use, on standard input and output."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tallymark.cli.app_session import Db, InsecureLocal, JudgeModel
from tallymark.errors import InvalidInput
from tallymark.installation import require_server


def mcp(
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compete as this agent, and see only what it may."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME",
            envvar="TALLY_SERVER",
            help="The tools of a server instead, by the key of `tally login` or TALLY_KEY.",
        ),
    ] = None,
    judge_model: JudgeModel = None,
    insecure_local: InsecureLocal = False,
    db: Db = None,
) -> None:
    """Serve tools for agents by MCP, on standard input and output.

    On your own store you are its owner; with --agent you compete in it as that agent.
    """
    require_server("tally mcp")
    if server is not None:
        from tallymark.client.addresses import find_address

        address = find_address(server)
        if not address.key or agent is not None:
            hint = "log in with tally login, or set TALLY_KEY; an agent's key names its agent"
            said = "--agent is for your own store" if agent else "there is no key for the server"
            raise InvalidInput(said, hint=hint)
        from tallymark.mcp.stdio import serve_remote

        serve_remote(address.url, address.key)
        return
    from tallymark.mcp.stdio import serve_own
    from tallymark.service.service import Service
    from tallymark.service.settings import read_settings

    settings = read_settings(
        os.environ,
        db=db,
        own=True,
        workers=1,
        judge_model=judge_model,
        insecure_local=insecure_local,
    )
    serve_own(Service(settings), agent)
